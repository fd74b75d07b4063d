import { useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { yamlParts } from './yaml-parts.ts';

/** What is wrong at a place of the text. Lines and columns count from 1. */
interface Mark {
  readonly kind: 'fault' | 'warning';
  readonly line: number;
  readonly column: number;
}

/** What the parent of an editor may do with it. */
export interface EditorHandle {
  /** Moves the focus and the caret to a place of the text. */
  jump(place: { readonly line: number; readonly column: number }): void;
}

const SIGNS = { fault: '■', warning: '▲' };

interface EditorProps {
  readonly id: string;
  readonly label: string;
  readonly value: string;
  readonly marks: readonly Mark[];
  readonly onText: (text: string) => void;
  readonly handle: { current: EditorHandle | null };
}

/**
 * A field for YAML, with the numbers of its lines beside it, a sign at those with marks, and colours. It is a plain text area,
 * so the keyboard, screen readers and undo work as everywhere, and Tab leaves it. Its own text has no colour: the same text is
 * drawn in colours behind it, only the lines in sight.
 */
export function Editor({ id, label, value, marks, onText, handle }: EditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const rows = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ first: 0, count: 0, offset: 0, left: 0 });
  const look = () => {
    // The browser may report a size once more after the editor was removed.
    if (area.current === null) return;
    const { scrollTop, scrollLeft, clientHeight } = area.current;
    const { lineHeight, top } = measuresOf(area.current);
    const first = Math.max(0, Math.floor((scrollTop - top) / lineHeight));
    // Two rows more than fit, so that the row at the top may be partly out of sight.
    const count = Math.ceil(clientHeight / lineHeight) + 2;
    setView({ first, count, offset: scrollTop - first * lineHeight, left: scrollLeft });
  };
  useEffect(() => {
    const observer = new ResizeObserver(look);
    observer.observe(area.current!);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    rows.current!.scrollTop = view.offset;
  }, [view]);
  useImperativeHandle(
    handle,
    () => ({
      jump({ line, column }) {
        const field = area.current!;
        const at = placeIn(field.value, line, column);
        field.focus();
        field.setSelectionRange(at, at);
        const { lineHeight } = measuresOf(field);
        field.scrollTop = Math.max(0, (line - 4) * lineHeight);
        // About the width of a character. The caret must not be beyond the right edge.
        field.scrollLeft = Math.max(0, column * lineHeight * 0.4 - field.clientWidth * 0.7);
      },
    }),
    [],
  );
  const byLine = new Map<number, Mark['kind']>();
  for (const { line, kind } of marks) if (byLine.get(line) !== 'fault') byLine.set(line, kind);
  const lines = useMemo(() => value.split('\n'), [value]);
  const shown = lines.slice(view.first, view.first + view.count);
  return (
    <div class="editor">
      <div class="editor-rows" ref={rows} aria-hidden="true">
        {shown.map((text, i) => {
          const line = view.first + i + 1;
          const kind = byLine.get(line);
          return (
            <div key={line} class={`editor-row ${kind ?? ''}`}>
              <span>
                {kind && SIGNS[kind]} {line}
              </span>
              <div class="editor-line">
                <code class="yaml" style={{ left: `${-view.left}px` }}>
                  {yamlParts(text).map(({ kind: of, text: part }) => (
                    <i class={`yaml-${of}`}>{part}</i>
                  ))}
                </code>
              </div>
            </div>
          );
        })}
        <div class="editor-end"></div>
      </div>
      <textarea
        id={id}
        ref={area}
        class="code"
        aria-label={label}
        aria-describedby={`${id}-state`}
        aria-invalid={marks.some(({ kind }) => kind === 'fault')}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        wrap="off"
        value={value}
        onInput={(event: Event) => onText((event.target as HTMLTextAreaElement).value)}
        onScroll={look}
      ></textarea>
    </div>
  );
}

function measuresOf(area: HTMLTextAreaElement): { lineHeight: number; top: number } {
  const { lineHeight, paddingTop } = getComputedStyle(area);
  return { lineHeight: Number.parseFloat(lineHeight), top: Number.parseFloat(paddingTop) };
}

function placeIn(text: string, line: number, column: number): number {
  let start = 0;
  for (let i = 1; i < line; i++) {
    const end = text.indexOf('\n', start);
    if (end === -1) break;
    start = end + 1;
  }
  const end = text.indexOf('\n', start);
  return Math.min(start + column - 1, end === -1 ? text.length : end);
}
