import { useEffect, useState } from 'preact/hooks';
import { navigate, usePlace } from '../place.ts';

/**
 * Whether the dialog of a list that creates a record is open, and what opens and closes it. `?create` in the address opens it once.
 * @param path the screen of the list
 */
export function useCreating(path: string, mayCreate: boolean): [boolean, (isOpen: boolean) => void] {
  const [isCreating, setCreating] = useState(false);
  const isAsked = usePlace().query.has('create');
  useEffect(() => {
    if (!isAsked) return;
    navigate(path, 'replace');
    setCreating(mayCreate);
  }, [isAsked]);
  return [isCreating, setCreating];
}
