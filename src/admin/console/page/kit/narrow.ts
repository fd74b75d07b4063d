import { useEffect, useState } from 'preact/hooks';

/** Up to this width style.css gives a screen one column. */
const NARROW = window.matchMedia('(max-width: 46rem)');

/** Whether the page is as narrow as on a phone, where a row has room for one button and a menu. */
export function useIsNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const change = () => setNarrow(NARROW.matches);
    NARROW.addEventListener('change', change);
    return () => NARROW.removeEventListener('change', change);
  }, []);
  return isNarrow;
}
