import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { notify } from './dialog.tsx';

interface Closing {
  readonly onClose: (...given: never[]) => void;
}

/** A part of a screen, such as its dialogs, that the browser loads when it is first shown. */
export function later<Props extends Closing>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let loaded: ComponentType<Props> | null = null;
  return function Later(props: Props) {
    const [Part, setPart] = useState<ComponentType<Props> | null>(() => loaded);
    useEffect(() => {
      if (loaded !== null) return;
      const show = (part: ComponentType<Props>) => {
        loaded = part;
        setPart(() => part);
      };
      load().then(show, () => {
        notify('The gateway did not send this part of the page. Reload the page, and try again.');
        (props.onClose as (made: null) => void)(null);
      });
    }, []);
    return Part === null ? null : <Part {...props} />;
  };
}
