import { useState } from 'preact/hooks';
import { Act } from '../kit/act.tsx';
import { Lines, Table } from '../kit/data-table.tsx';
import { SelectField } from '../kit/dialog.tsx';
import { say, Time } from '../kit/format.tsx';
import { later } from '../kit/later.tsx';
import { Badge, Page, Section } from '../kit/page.tsx';
import { PatchText } from '../kit/patch-view.tsx';
import { Good } from '../kit/seen.tsx';
import { Empty, Shown } from '../kit/states.tsx';
import { UnreadableRows } from '../kit/unreadable-rows.tsx';
import { yamlParts } from '../kit/yaml-parts.ts';
import { operationAt } from '../operation-words.ts';
import { changeQuery, decoded, hrefOf, navigate, usePlace } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { useResource } from '../requests.ts';
import { useMay } from '../signed-in.tsx';
import type { Compared, PlansFile, PlansHistory, PlansVersion, PlansWritten, ShownPlansVersion } from '../types.ts';
import { actorText } from './change-columns.tsx';
import { Affected } from './plans-affected.tsx';
import { WHY_PLANS, WithComparison } from './plans-comparison.tsx';

const WritingDialog = later(async () => (await import('../operation-dialog.tsx')).OperationDialog<PlansWritten>);

// The versions of plans.yaml that were in force: the list, and one of them with its difference from another.

const FROM: Readonly<Record<PlansVersion['from'], string>> = {
  file: 'a file',
  api: 'this page or the API',
  command: 'tollgate plans rollback',
};

/** `/plans/history` and `/plans/history/VERSION`. */
export function History({ rest }: { rest: string }) {
  const name = decoded(rest.replace(/^history\/?/, ''));
  return name === '' ? <Versions /> : <Version key={name} name={name} />;
}

function Versions() {
  const history = useResource<PlansHistory>('/admin/plans/history');
  return (
    <Page title="History of plans" back={{ title: 'Plans', path: '/plans' }}>
      <Shown of={history} what="the history">
        {({ versions, unreadable }: PlansHistory, known) => (
          <>
            {versions.length + unreadable.length === 0 ? (
              <Empty title="No version is kept yet.">
                <p>Each version of plans.yaml that comes into force is kept from now on.</p>
              </Empty>
            ) : (
              <Table
                caption="Versions of plans.yaml, newest first"
                rows={versions}
                keyOf={({ number }: PlansVersion) => String(number)}
                columns={[
                  {
                    title: 'Version',
                    isName: true,
                    cell: ({ version, number }: PlansVersion) => (
                      <>
                        <a href={hrefOf(`/plans/history/${version}?number=${number}`)}>
                          <code>{version}</code>
                        </a>{' '}
                        {number === latestOf({ versions, unreadable })?.number && <Good of={known}>In force</Good>}
                      </>
                    ),
                  },
                  { title: 'Since', cell: ({ since }: PlansVersion) => <Time at={since} /> },
                  {
                    title: 'By',
                    cell: (one: PlansVersion) => (
                      <Lines note={FROM[one.from] ?? one.from}>
                        <bdi>{byText(one)}</bdi>
                      </Lines>
                    ),
                  },
                  { title: 'What changed', cell: (one: PlansVersion) => <WhatChanged {...one} /> },
                ]}
              />
            )}
            <UnreadableRows rows={unreadable} noun="version" />
          </>
        )}
      </Shown>
    </Page>
  );
}

/** How many changes of a version the list shows. */
const MAX_CHANGES = 3;

/** What a version changed, and why. */
function WhatChanged({ changes, reason }: Pick<PlansVersion, 'changes' | 'reason'>) {
  const shown = changes?.slice(0, MAX_CHANGES) ?? [];
  return (
    <div class="sentences">
      {reason !== null && (
        <div>
          <strong>
            <bdi>{reason}</bdi>
          </strong>
        </div>
      )}
      {shown.map((change) => (
        <div key={change}>
          <bdi>{change}</bdi>
        </div>
      ))}
      {shown.length === 0 && <span class="muted">{changes === null ? 'Not known' : 'Comments or layout'}</span>}
      {(changes?.length ?? 0) > MAX_CHANGES && <span class="muted">and {changes!.length - MAX_CHANGES} more</span>}
    </div>
  );
}

/** The version in force; null if that may be one that cannot be read. */
function latestOf({ versions: [latest], unreadable: [hidden] }: PlansHistory): PlansVersion | null {
  return latest === undefined || (hidden !== undefined && Number(hidden.id) > latest.number) ? null : latest;
}

/** Who brought a version into force. A gateway that reads a file does not know its author. */
function byText({ by, from }: Pick<PlansVersion, 'by' | 'from'>): string {
  if (by === null) return 'unknown: the entry in the store is damaged';
  return from === 'file' ? 'the author of the file' : actorText(by);
}

function Version({ name }: { name: string }) {
  const { query } = usePlace();
  const history = useResource<PlansHistory>('/admin/plans/history');
  const kept = history.reading;
  const versions = ifKnown(kept)?.versions ?? [];
  const latest = kept.state === 'known' ? latestOf(kept.value) : null;
  const inForce = latest?.version ?? null;
  // A version that was restored was in force more than once.
  const asked = versions.findIndex(({ version, number }) => version === name && String(number) === query.get('number'));
  const at = asked >= 0 ? asked : versions.findIndex(({ version }) => version === name);
  const before = versions[at + 1]?.version ?? null;
  const against = query.get('against') ?? before ?? (inForce === null ? null : name);
  const compared = against === null ? '' : `?against=${encodeURIComponent(against)}`;
  const shown = useResource<ShownPlansVersion>(
    kept.state !== 'known' ? null : `/admin/plans/history/${encodeURIComponent(name)}${compared}`,
  );
  const others = [...new Map(versions.map((one) => [one.version, one])).values()].filter(
    ({ version }) => version !== name,
  );
  const isInForce = name === inForce;
  const beside = !isInForce && shown.reading.state === 'known' && <Restore of={shown.reading.value} />;
  const noteOf = ({ version, since }: PlansVersion) =>
    version === before
      ? 'the one before'
      : version === inForce
        ? 'in force'
        : `${since.slice(0, 16).replace('T', ' ')} UTC`;
  const choices = [
    ...(before === null && against === name ? [[name, 'no version before it'] as const] : []),
    ...others.map((one) => [one.version, `${one.version}, ${noteOf(one)}`] as const),
  ];
  return (
    <Page title={`Plans ${name}`} back={{ title: 'History of plans', path: '/plans/history' }} beside={beside}>
      <Shown
        of={history.error === null ? shown : { ...shown, error: history.error, reload: history.reload }}
        what="the version"
      >
        {({ text, patch, ...newest }: ShownPlansVersion) => {
          const one = versions[at] ?? newest;
          return (
            <>
              <p class="row">
                {kept.state === 'known' && latest !== null && versions[at] === latest && (
                  <Good of={kept}>In force</Good>
                )}
                <span>
                  Since <Time at={one.since} />, by <bdi>{byText(one)}</bdi>, from {FROM[one.from] ?? one.from}
                  {one.reason !== null && say`: ${<bdi>{one.reason}</bdi>}`}
                </span>
              </p>
              <Section title="What it changed">
                <div class="stack">
                  {others.length > 0 && (
                    <SelectField
                      id="against"
                      label="Compared with"
                      value={against ?? ''}
                      options={choices}
                      onChange={({ currentTarget }) => changeQuery({ against: currentTarget.value })}
                    />
                  )}
                  {patch === '' ? (
                    <Empty
                      title={before === null ? 'It is the first version that is kept.' : 'The two are the same.'}
                    />
                  ) : (
                    <PatchText patch={patch} label={`Difference from ${against}`} />
                  )}
                </div>
              </Section>
              <Section title="Text">
                {/* biome-ignore lint/a11y/useSemanticElements: a section would not keep the lines of the text */}
                <pre class="patch panel yaml" tabindex={0} role="region" aria-label={`Text of plans.yaml ${name}`}>
                  {text.split(/(?<=\n)/).map((line, i) => (
                    <span key={i}>
                      {yamlParts(line).map(({ kind, text: part }) => (
                        <i class={`yaml-${kind}`}>{part}</i>
                      ))}
                    </span>
                  ))}
                </pre>
              </Section>
            </>
          );
        }}
      </Shown>
    </Page>
  );
}

/** The button that puts a version back into force. Its dialog shows what that changes. */
function Restore({ of: shown }: { of: ShownPlansVersion }) {
  const { version } = shown;
  const isAdmin = useMay('admin');
  const [isOpen, setOpen] = useState(false);
  const file = useResource<PlansFile>('/admin/plans/file');
  if (!isAdmin || file.reading.state !== 'known') return null;
  if (!file.reading.value.writable)
    return <span class="muted">{say`To restore it: ${<code>tollgate plans rollback {version}</code>}`}</span>;
  return (
    <>
      <Act text="Restore…" kind="primary" on={() => setOpen(true)} />
      {isOpen && (
        <WritingDialog
          operation={operationAt('POST /plans/history/{version}/restore')}
          of={{ id: version, name: version }}
          etag={file.etag}
          title={`Restore plans ${version}`}
          action="Restore"
          hints={WHY_PLANS}
          reload={() => void file.reload()}
          done={({ version, inForce, whyNotInForce }) =>
            `plans.yaml is version ${version} again. ${inForce ? 'It is in force.' : `It is not in force yet: ${whyNotInForce}`}`
          }
          onDone={() => navigate('/plans')}
          onClose={() => setOpen(false)}
          intro={
            <p>plans.yaml of this gateway is replaced, and comes into force for all callers. Your copy in Git stays.</p>
          }
        >
          <WhatItChanges of={shown} />
        </WritingDialog>
      )}
    </>
  );
}

/** Compares the version with the plans in force and with the file, as the editor does with a draft. */
function WhatItChanges({ of: { text } }: { of: ShownPlansVersion }) {
  const [known, keep] = useState<Compared | null>(null);
  return (
    <WithComparison text={text} against="" known={known} keep={keep}>
      {({ patch, faults, refused, affected }: Compared) => (
        <>
          {faults.map(({ line, message }) => (
            <p>
              <Badge kind="bad">Line {line}</Badge> <bdi>{message}</bdi>
            </p>
          ))}
          {refused.map((sentence) => (
            <p>
              <Badge kind="bad">Would be refused</Badge> <bdi>{sentence}</bdi>
            </p>
          ))}
          {faults.length === 0 && (
            <>
              <PatchText id="restore-patch" patch={patch} label="What restoring changes" />
              <h3>Who is affected</h3>
              <Affected affected={affected} />
            </>
          )}
        </>
      )}
    </WithComparison>
  );
}
