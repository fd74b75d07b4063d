import { type ComponentChildren, render } from 'preact';
import { useState } from 'preact/hooks';
import { BarChart, BY_QUOTA, Meter } from '../../../../src/admin/console/page/kit/charts.tsx';
import { CopyButton, CopyId } from '../../../../src/admin/console/page/kit/copy.tsx';
import { Table } from '../../../../src/admin/console/page/kit/data-table.tsx';
import { Field } from '../../../../src/admin/console/page/kit/dialog.tsx';
import { Editor } from '../../../../src/admin/console/page/kit/editor.tsx';
import { Choice } from '../../../../src/admin/console/page/kit/filters.tsx';
import { Icon, type IconName } from '../../../../src/admin/console/page/kit/icon.tsx';
import { WindowList } from '../../../../src/admin/console/page/kit/limit-windows.tsx';
import { Menu } from '../../../../src/admin/console/page/kit/menu.tsx';
import { MomentField } from '../../../../src/admin/console/page/kit/moment-field.tsx';
import { Badge, Page, Section } from '../../../../src/admin/console/page/kit/page.tsx';
import { PatchText } from '../../../../src/admin/console/page/kit/patch-view.tsx';
import { Good } from '../../../../src/admin/console/page/kit/seen.tsx';
import { Segments } from '../../../../src/admin/console/page/kit/segments.tsx';
import { Empty, Loading, Problem } from '../../../../src/admin/console/page/kit/states.tsx';
import { Tabs } from '../../../../src/admin/console/page/kit/tabs.tsx';
import type { Known } from '../../../../src/admin/console/page/reading.ts';
import { ApiError } from '../../../../src/admin/console/page/requests.ts';

// Every part of the design system of the console on one page, for people who change it. It shows no moment, so that two pictures of it
// are the same.

const PRESENT: Known<null> = { state: 'known', value: null, at: 0, everyMs: Number.POSITIVE_INFINITY };

const ICONS: readonly IconName[] = [
  ...([
    'activity',
    'alert',
    'back',
    'book',
    'calendar',
    'chart',
    'check',
    'copy',
    'customer',
    'down',
    'explain',
    'key',
  ] as const),
  ...(['out', 'plans', 'plus', 'pulse', 'ring', 'scroll', 'search', 'server', 'stop', 'up', 'user'] as const),
];

const BARS = Array.from({ length: 24 }, (_, i) => ({
  label: `${String(i).padStart(2, '0')}:00`,
  values: { admitted: 40 + ((i * 37) % 60), refused: i === 15 ? 30 : 0, banned: i === 16 ? 45 : 0 },
}));

const ROWS = [
  { name: 'Paws & Claws', plan: 'business', used: 612, limit: 1_000 },
  { name: "Jo's pet shop", plan: 'free', used: 60, limit: 60 },
  { name: 'Zoo of the North', plan: 'enterprise', used: 0, limit: 6_000 },
];
type Row = (typeof ROWS)[number];

const YAML = `# What each plan allows.
plans:
  free: { limits: { minute: 60, day: 1000 } }
  pro:
    limits: { minute: { limit: 300, window: 'sliding' } }
    enforce: false
`;

const PATCH = `--- plans.yaml
+++ plans.yaml
@@ -1,2 +1,2 @@
 plans:
-  free: { limits: { minute: 60 } }
+  free: { limits: { minute: 90 } }
`;

function Chosen({ children }: { children: (chosen: string, choose: (one: string) => void) => ComponentChildren }) {
  const [chosen, choose] = useState('a');
  return <>{children(chosen, choose)}</>;
}

function Parts() {
  return (
    <main id="main">
      <Page
        title="Parts of the console"
        back={{ title: 'All parts', path: '/' }}
        beside={
          <button type="button" class="primary">
            Primary
          </button>
        }
      >
        <Section title="Buttons">
          <p class="row">
            <button type="button" class="primary">
              Primary
            </button>
            <button type="button">Usual</button>
            <button type="button" class="quiet">
              Quiet
            </button>
            <button type="button" class="danger">
              Dangerous
            </button>
            <button type="button" disabled>
              Disabled
            </button>
            <button type="button" aria-busy="true">
              Working…
            </button>
            {/* biome-ignore lint/a11y/noAmbiguousAnchorText: it shows how a link looks, and leads to nothing */}
            <a class="button" href="#main">
              A link
            </a>
            <Menu
              button={
                <>
                  More
                  <Icon of="down" />
                </>
              }
            >
              {() => (
                <div>
                  <button type="button">An entry</button>
                </div>
              )}
            </Menu>
          </p>
        </Section>
        <Section title="States">
          <p class="row">
            <Good of={PRESENT}>Active</Good>
            <Badge kind="warn">Suspended</Badge>
            <Badge kind="bad">Banned</Badge>
            <Badge kind="plain">Revoked</Badge>
            <span class="tag">admin</span>
            <CopyId id="key_wEgDyZcCFEX9HpSB" />
          </p>
        </Section>
        <Section title="Fields">
          <form class="panel stack" noValidate>
            <div class="grid">
              <Field id="name" label="Name" hint="For operators. Callers never see it.">
                <input id="name" aria-describedby="name-hint" defaultValue={'Paws & Claws'} />
              </Field>
              <Field id="wrong" label="Limit">
                <input id="wrong" aria-invalid="true" defaultValue="sixty" />
              </Field>
              <Field id="plan" label="Plan">
                <select id="plan">
                  <option>free</option>
                  <option>pro</option>
                </select>
              </Field>
              <MomentField id="until" name="until" label="Until" empty="until it is resumed" />
            </div>
            <label class="check">
              <input type="checkbox" checked /> A box
            </label>
            <label class="check">
              <input type="radio" checked /> A choice
            </label>
            <p class="problem-line" role="alert">
              Limit: a whole number from 1.
            </p>
          </form>
        </Section>
        <Section title="Filters and choices">
          <div class="filters">
            <Choice id="filter" name="filter" label="Plan" any="all" options={[['free', 'free']]} />
            <Chosen>
              {(chosen: string, choose: (one: string) => void) => (
                <Segments
                  label="Range"
                  options={[
                    ['a', '24 h'],
                    ['b', '7 days'],
                    ['c', '30 days'],
                  ]}
                  value={chosen}
                  choose={choose}
                />
              )}
            </Chosen>
          </div>
        </Section>
        <Section title="Tabs and table">
          <Chosen>
            {(chosen: string, choose: (one: string) => void) => (
              <Tabs
                id="tabs"
                label="Callers"
                chosen={chosen}
                choose={choose}
                tabs={[
                  { name: 'a', title: 'Refused', count: { ...PRESENT, value: 2 }, isBad: true },
                  { name: 'b', title: 'Near a limit', count: { ...PRESENT, value: 0 } },
                ]}
              >
                <Table
                  caption="Keys"
                  rows={ROWS}
                  keyOf={({ name }: Row) => name}
                  columns={[
                    {
                      title: 'Key',
                      isName: true,
                      sort: ({ name }: Row) => name,
                      cell: ({ name }: Row) => <a href="#main">{name}</a>,
                    },
                    { title: 'Plan', cell: ({ plan }: Row) => plan },
                    {
                      title: 'Used',
                      cell: ({ used, limit }: Row) => (
                        <span class="stack tight">
                          <Meter label="Used" used={used} limit={limit} /> {used} of {limit}
                        </span>
                      ),
                    },
                    {
                      title: 'Left',
                      isNumber: true,
                      sort: ({ used, limit }: Row) => limit - used,
                      cell: ({ used, limit }: Row) => limit - used,
                    },
                    {
                      title: '',
                      cell: () => (
                        <span class="row">
                          <button type="button">Top up…</button>
                        </span>
                      ),
                    },
                  ]}
                />
              </Tabs>
            )}
          </Chosen>
        </Section>
        <Section title="Figures, chart and windows">
          <div class="stack">
            <dl class="grid figures">
              <div>
                <dt>Admitted</dt>
                <dd>
                  612<span class="unit"> in a minute</span>
                </dd>
              </div>
              <div>
                <dt>Refused (429)</dt>
                <dd class="warn">
                  2<span class="unit"> in a minute</span>
                </dd>
              </div>
              <div>
                <dt>Failed (5xx)</dt>
                <dd class="bad">
                  1<span class="unit"> in a minute</span>
                </dd>
              </div>
            </dl>
            <BarChart id="chart" title="Requests by verdict" series={BY_QUOTA} bars={BARS} step="hour" />
            <div class="panel">
              <WindowList
                of={{
                  minute: { limit: 60, used: 0, remaining: 60, resetAt: 0, form: 'fixed', topUp: null },
                  day: { limit: 'unlimited', used: 0, remaining: 'unlimited', resetAt: 0, form: 'fixed', topUp: null },
                }}
              />
            </div>
          </div>
        </Section>
        <Section title="Without data">
          <div class="stack">
            <Empty title="No refusals.">
              <p>Each gateway remembers its last 10,000.</p>
            </Empty>
            <Loading what="the keys" />
            <Problem error={new ApiError(503, 'store_unavailable', 'Redis did not answer within 100 ms.')} />
            <div class="banner">
              <p class="state-title">plans.yaml is refused</p>
              <p>Line 3: must be a whole number.</p>
            </div>
          </div>
        </Section>
        <Section title="Text of files">
          <div class="stack">
            <Editor
              id="yaml"
              label="Text of plans.yaml"
              value={YAML}
              marks={[{ kind: 'warning', line: 6, column: 1 }]}
              onText={() => {}}
              handle={{ current: null }}
            />
            <PatchText patch={PATCH} label="Patch" />
            <p class="row">
              <CopyButton of="patch-text" what="the patch" />
            </p>
          </div>
        </Section>
        <Section title="Dialog">
          <dialog open aria-labelledby="dialog-title">
            <form>
              <h2 id="dialog-title">Lift the ban of Jo's pet shop</h2>
              <p class="effect">The next request is admitted within a second of the lift.</p>
              <div class="dialog-actions">
                <button type="button">Cancel</button>
                <button type="button" class="primary">
                  Lift the ban
                </button>
              </div>
            </form>
          </dialog>
        </Section>
        <Section title="Icons">
          <p class="row">
            {ICONS.map((of) => (
              <Icon key={of} of={of} />
            ))}
          </p>
        </Section>
      </Page>
    </main>
  );
}

render(<Parts />, document.getElementById('console')!);
