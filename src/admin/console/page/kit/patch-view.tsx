import { useEffect, useState } from 'preact/hooks';
import { CopyButton } from './copy.tsx';
import { say } from './format.tsx';

/** Beyond this many lines a patch is shown without colours. */
const MAX_COLOURED = 2_000;

/** A unified diff, whose lines have their signs and colours. @param label what it is, for screen readers */
export function PatchText({ id = 'patch-text', patch, label }: { id?: string; patch: string; label: string }) {
  const lines = patch.split(/(?<=\n)/);
  return (
    // biome-ignore lint/a11y/useSemanticElements: a section would not keep the lines of the text
    <pre class="patch panel" id={id} tabindex={0} role="region" aria-label={label}>
      {lines.length > MAX_COLOURED
        ? patch
        : lines.map((line, i) => (
            <span class={(i > 1 && CLASSES[line.slice(0, 1)]) || ''} key={i}>
              {line}
            </span>
          ))}
    </pre>
  );
}

const CLASSES: Readonly<Record<string, string>> = { '+': 'added', '-': 'removed', '@': 'muted' };

/** The ways to take a patch along. @param path of the file that it changes */
export function PatchActions({ patch, path }: { patch: string; path: string }) {
  const name = `${path.replace(/\.ya?ml$/, '')}.patch`;
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([patch], { type: 'text/x-diff' }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [patch]);
  return (
    <div class="row after">
      <CopyButton of="patch-text" what="the patch" />
      {url !== null && (
        <a class="button" href={url} download={name}>
          Download {name}
        </a>
      )}
      <span class="muted">{say`${<code>git apply {name}</code>} makes the change.`}</span>
    </div>
  );
}
