import { z } from 'zod';
import { Refused } from '../../failure.ts';
import { formText, type LimitsPart, type Plan, shownPlan, windowsIn } from '../../model/plan.ts';
import { byReadability } from '../../model/record.ts';
import { count, time } from '../../model/values.ts';
import { shownActor } from '../audit-trail.ts';
import { bounded, versionState } from '../load-record.ts';
import { checked, compared, draftEdits, edited, simulated } from '../plans/draft-report.ts';
import type { Outcome } from '../plans/drafts.ts';
import { KEPT_VERSIONS } from '../plans/plans-history-store.ts';
import { readHistory, shownVersion, versionNamed, versionReport } from '../plans/versions.ts';
import { announceWritten, untilInForce, writePlans } from '../plans/write.ts';
import type { Change } from '../recorded.ts';
import { insistOnReason, reason } from '../suspensions.ts';
import { unreadable, unreadableReport } from '../unreadable.ts';
import type { PlansContext } from './contexts.ts';
import { defineOperation, type Invocation } from './operation.ts';

/** JSON needs up to six bytes for a character of the text, which may have 512 KiB. */
const DRAFT_BYTES = 4 * 1024 * 1024;
/** A draft and 16 MiB of a log, in which JSON escapes each quotation mark. */
const SIMULATION_BYTES = 28 * 1024 * 1024;

const version = z.string().meta({ pattern: '^[0-9a-f]{12}$' });

/** The error of a draft with faults that was to be written. */
export const invalidPlans = checked
  .extend({ code: z.literal('invalid_plans'), message: z.string(), status: z.literal(422) })
  .meta({ id: 'InvalidPlans' });

const draft = z
  .strictObject({ text: z.string().describe('The text of plans.yaml. More than 512 KiB are a fault.') })
  .meta({ id: 'Draft' });

const reasonOfChange = reason
  .optional()
  .describe(
    'Why, such as a ticket: one line of up to 200 characters for operators, in the history and the record of changes.',
  );

export const showPlans = defineOperation({
  name: 'showPlans',
  line: 'GET /plans',
  role: 'viewer',
  sentence: 'Shows the plans in force, and which version of the files they come from.',
  on: 'settings',
  output: z.strictObject({
    versions: z
      .strictObject({ settings: version, plans: version })
      .describe('The beginning of the SHA-256 of gateway.yaml and of plans.yaml.'),
    plans: z.array(shownPlan),
    failedAuthentication: z
      .strictObject({ minute: count })
      .describe('Failed authentications that one client address may make.'),
  }),
  async run({ plans: inForce, versions }) {
    const { plans, failedAuthenticationPerMinute } = inForce();
    return {
      output: {
        versions: versions(),
        plans: [...plans.values()].map(planReport),
        failedAuthentication: { minute: failedAuthenticationPerMinute },
      },
    };
  },
});

function planReport(plan: Plan) {
  const { eachKey, groups, shadow, shadowForms } = plan;
  const shown = withWindows(plan);
  return {
    ...shown,
    windows: [...shown.windows, ...windowsOf({ limits: shadow, forms: shadowForms }, true)],
    eachKey: eachKey && withWindows(eachKey),
    groups: groups?.map(withWindows),
  };
}

/** A part of a plan that has limits, and may have some in units. */
function withWindows<T extends LimitsPart & Pick<Plan, 'units'>>(part: T) {
  const units = part.units?.map((unit) => ({ ...unit, windows: windowsOf(unit) }));
  return { ...part, units, windows: windowsOf(part) };
}

function windowsOf({ limits, forms }: LimitsPart, isShadow = false) {
  return windowsIn(limits).map((window) => {
    return { window, limit: limits[window]!, form: formText(window, forms?.[window]), shadow: isShadow };
  });
}

export const checkPlans = defineOperation({
  name: 'checkPlans',
  line: 'POST /plans/check',
  role: 'viewer',
  sentence: 'Finds the faults and warnings of a draft of plans.yaml, as `tollgate plans check` does.',
  description:
    'Changes nothing. Faults have the position in the text. The warnings consider the routes of gateway.yaml; those that depend on the keys ' +
    'of the store are in `POST /plans/diff`. Each gateway does one check at a time, in a thread of its own, and ends it after 20 s or above ' +
    '192 MB of memory: 422 `too_costly`. Nine checks may run or wait; a further one is 503 `busy`, as is any large body beyond ' +
    'those of 96 MiB together.',
  on: 'plans',
  maxBytes: DRAFT_BYTES,
  input: draft,
  output: checked,
  run: async ({ drafts }, _, { body }) => ({ output: resultOf(await drafts.check(body as Uint8Array)) }),
});

export const editPlans = defineOperation({
  name: 'editPlans',
  line: 'POST /plans/edit',
  role: 'viewer',
  sentence: 'Changes values in the text of a draft of plans.yaml, and keeps its comments, its order and its layout.',
  description:
    'Writes no file. A new value may be a fault: `POST /plans/check` finds it. The bounds are those of `POST /plans/check`.',
  on: 'plans',
  maxBytes: DRAFT_BYTES,
  input: draftEdits,
  output: edited,
  run: async ({ drafts }, _, { body }) => ({ output: resultOf(await drafts.edit(body as Uint8Array)) }),
});

export const diffPlans = defineOperation({
  name: 'diffPlans',
  line: 'POST /plans/diff',
  role: 'viewer',
  sentence: 'Compares a draft of plans.yaml with the plans in force or with another text, and makes a patch of it.',
  description:
    'Changes nothing. `changes` has the form of `tollgate plans diff --json`, with the number of live keys that each change affects. Keys are counted for at most 10 s; if there are more, or the store is away, `keys` is null and `live.isComplete` ' +
    'false. `patch` is a unified diff against the file as it is, or against `from`, for `git apply` or `patch -p1`. The bounds are those of ' +
    '`POST /plans/check`.',
  on: 'plans',
  maxBytes: 2 * DRAFT_BYTES,
  input: draft
    .extend({
      from: z.string().optional().describe('The text to compare with. If it is left out, the plans in force.'),
    })
    .meta({ id: 'ComparedDraft' }),
  output: compared,
  run: async ({ drafts, users }, _, { body }) => ({ output: resultOf(await drafts.diff(body as Uint8Array, users)) }),
});

export const simulatePlans = defineOperation({
  name: 'simulatePlans',
  line: 'POST /plans/simulate',
  role: 'viewer',
  sentence: 'Replays recorded requests under a draft of plans.yaml, as `tollgate plans simulate` does.',
  description:
    "Changes nothing. `log` is lines of gateways' logs, at most 16 MiB; `record: recent` is what all gateways on the store remember of " +
    'recent requests: each leaves the others up to 4 MiB of them in the store, for which it has 4 s (`isComplete`). It is 400 if this ' +
    'gateway keeps no record. The plans in force take the place of `--from-plans`. Each gateway does one simulation at a time and ends it ' +
    'after 60 s or above 384 MB of heap: 422 `too_costly`. One more may wait.',
  on: 'plans',
  maxBytes: SIMULATION_BYTES,
  input: z
    .strictObject({
      text: z.string().describe('The text of plans.yaml.'),
      record: z
        .literal('recent')
        .optional()
        .describe('Replays what the gateways on the store remember. Instead of `log`.'),
      log: z.string().optional().describe('Lines of the log, from one or more gateways. Instead of `record`.'),
    })
    .meta({ id: 'SimulationRequest' }),
  output: simulated,
  run: async ({ drafts }, _, { body }) => ({ output: resultOf(await drafts.simulate(body as Uint8Array)) }),
});

export const showPlansFile = defineOperation({
  name: 'showPlansFile',
  line: 'GET /plans/file',
  role: 'viewer',
  sentence: 'Shows the text of plans.yaml as it is on the disk of this gateway.',
  on: 'plans',
  isVersioned: true,
  output: z
    .strictObject({
      text: z.string(),
      path: z.string().describe('The name of the file without its folder.'),
      version,
      writable: z.boolean().describe('Whether `PUT /plans/file` can replace it.'),
      whyNotWritable: z.string().nullable(),
    })
    .meta({ id: 'PlansFile' }),
  async run({ file, mayWrite }) {
    const { text, version } = file.read();
    const whyNot = mayWrite ? await file.obstacle() : SWITCHED_OFF;
    const output = { text, path: file.name, version, writable: whyNot === null, whyNotWritable: whyNot };
    return { output, version };
  },
});

const SWITCHED_OFF =
  'The settings do not allow to write plans.yaml from here: set `admin: { editPlans: true }` in gateway.yaml and restart, or commit the patch.';

const written = z
  .strictObject({
    version,
    inForce: z.boolean().describe('Whether this gateway runs by the new version already.'),
    whyNotInForce: z.string().nullable(),
  })
  .meta({ id: 'PlansWritten' });

export const writePlansFile = defineOperation({
  name: 'writePlansFile',
  line: 'PUT /plans/file',
  role: 'admin',
  sentence: 'Replaces plans.yaml on the disk of this gateway.',
  description:
    'Only with `admin: { editPlans: true }` in gateway.yaml. The text is checked first; with faults, or if live keys use a plan that it ' +
    'lacks, nothing is written. The file is replaced as a whole and keeps its mode and owner. The response waits up to 15 s until ' +
    'this gateway has the new version in force. Recorded as `plans.write`.',
  on: 'plans',
  action: 'plans.write',
  isVersioned: true,
  needsVersion: true,
  maxBytes: DRAFT_BYTES,
  input: draft.extend({ reason: reasonOfChange }).meta({ id: 'WrittenDraft' }),
  output: written,
  fails: {
    conflict: 'The file cannot be replaced, or live keys use a plan that the text lacks. Nothing was written.',
    invalid_plans: 'The text has faults. Nothing was written.',
  },
  run: (context, _, invocation) => replaceFile(context, invocation, async () => invocation.body as Uint8Array),
});

/**
 * Replaces plans.yaml by a draft, and waits until it is in force.
 * @param bodyOf returns `{text, reason}` as JSON, once it is clear that the file may be written
 * @throws Refused, Failure. Nothing is written then
 */
async function replaceFile(context: PlansContext, invocation: Invocation, bodyOf: () => Promise<Uint8Array>) {
  const { drafts, file, inForce, users, mayWrite, replaced } = context;
  // A person with a shell as the user of the gateway can write the file without Tollgate.
  if (!mayWrite && invocation.by?.kind !== 'shell') throw new Refused('forbidden', SWITCHED_OFF);
  const { versions } = invocation;
  const isExpected = (found: string) => versions === null || versions.includes(found);
  const body = await bodyOf();
  const plans = await replaced();
  const { sound, ...faults } = resultOf(await drafts.sound(body, plans));
  if (sound === null)
    throw new Refused('invalid_plans', 'The text has faults. Nothing was written.', { members: faults });
  const monotonicMs = () => performance.now();
  insistOnReason(sound.reason);
  const done = await writePlans(sound, isExpected, { file, replaced: plans, users, monotonicMs });
  if (done.kind === 'changed') {
    const message = 'plans.yaml has been changed since. Read it again and look at what has changed.';
    throw new Refused('precondition_failed', message, { version: done.version });
  }
  const { before, version } = done;
  const isSame = before === version;
  const { changes, reason } = sound;
  if (!isSame) await announceWritten(version, { by: invocation.by!, reason, changes: bounded(changes) }, context);
  const change: Change = isSame
    ? { outcome: 'unchanged', target: null, before: null, after: null }
    : { target: null, before: { version: before }, after: versionState(version, changes, reason) };
  const isInForce = inForce !== null && (await untilInForce(version, inForce, monotonicMs));
  const why =
    inForce === null ? WITHOUT_GATEWAY : inForce.faults.join('\n') || 'The gateway has not read the file yet.';
  return { output: { version, inForce: isInForce, whyNotInForce: isInForce ? null : why }, change, version };
}

const WITHOUT_GATEWAY = '`tollgate plans history` lists it once a gateway has it in force.';

const plansVersion = z
  .strictObject({
    number: count
      .min(1)
      .describe('Rises with each version that comes into force. A version that comes back has another number.'),
    version,
    since: time.describe('When it came into force, by the clock of the first gateway that had it.'),
    from: z
      .enum(['file', 'api', 'command'])
      .describe(
        'What wrote the file: `api` is this API or the console, `command` is `tollgate plans rollback`, and `file` is anything else.',
      ),
    by: shownActor
      .nullable()
      .describe(
        'Who wrote it. If `from` is `file`, Tollgate cannot know who it was, and names the file. Null if the entry in the store is damaged.',
      ),
    reason: z.string().nullable().describe('Why, as its author said; null if that was not given.'),
    changes: z
      .array(z.string())
      .nullable()
      .describe(
        'What it changed, in words: `pro minute 300 → 500`; empty for comments and layout. Null if no gateway has seen what was in force before it.',
      ),
  })
  .meta({ id: 'PlansVersion' });

export const listPlansHistory = defineOperation({
  name: 'listPlansHistory',
  line: 'GET /plans/history',
  role: 'viewer',
  sentence: 'Lists the versions of plans.yaml that came into force, newest first.',
  description:
    `The last ${KEPT_VERSIONS} are kept, with at most 16 MiB of text together, once for all gateways on the store. The first is the one that came into force ` +
    'last, on whichever gateway.',
  on: 'store',
  needsNoPlans: true,
  output: z.strictObject({
    versions: z.array(plansVersion).describe('Without their texts.'),
    unreadable: unreadable.describe(
      'The versions whose entries the store has and cannot be read, each with its number as `id`. One with a higher number than the first of `versions` came into force after it.',
    ),
  }),
  async run({ plansHistory }) {
    const { readable, unreadable } = byReadability(await plansHistory.list());
    return { output: { versions: readable.map(versionReport), unreadable: unreadableReport(unreadable) } };
  },
});

export const showPlansVersion = defineOperation({
  name: 'showPlansVersion',
  line: 'GET /plans/history/{version}',
  role: 'viewer',
  sentence: 'Shows the text of a version of plans.yaml that was in force, and its difference from another one.',
  description:
    'Name a version by its first 4 to 12 characters. If it was in force several times, this is the last of them.',
  on: 'store',
  needsNoPlans: true,
  readsMuch: true,
  input: z.strictObject({
    against: z
      .string()
      .optional()
      .describe('The version to compare with. If it is left out, that is the version before this one.'),
  }),
  output: plansVersion
    .extend({
      text: z.string().describe('Without a byte order mark.'),
      against: version.nullable().describe('The version to which `patch` refers; null if none before it is kept.'),
      patch: z
        .string()
        .describe('Unified diff from `against` to this version; empty if they are the same, or without `against`.'),
    })
    .meta({ id: 'PlansVersionText' }),
  fails: { not_found: 'No such version is kept.' },
  async run({ plansHistory }, { version: word, against = null }) {
    return { output: await shownVersion(await readHistory(plansHistory), word, against) };
  },
});

export const restorePlansVersion = defineOperation({
  name: 'restorePlansVersion',
  line: 'POST /plans/history/{version}/restore',
  role: 'admin',
  sentence: 'Replaces plans.yaml on the disk of this gateway by a version that was in force before.',
  description:
    'As `PUT /plans/file` with the text of that version: only with `admin: { editPlans: true }`, checked first, and recorded as `plans.write`. ' +
    'In the history it is an entry of its own.',
  on: 'plans',
  needsNoPlans: true,
  action: 'plans.write',
  isVersioned: true,
  needsVersion: true,
  input: z.strictObject({ reason: reasonOfChange }),
  output: written,
  fails: {
    not_found: 'No such version is kept. Nothing was written.',
    conflict: 'The file cannot be replaced, or live keys use a plan that the version lacks. Nothing was written.',
    invalid_plans: 'The text has faults by the rules of this version of Tollgate. Nothing was written.',
  },
  run: (context, { version: word, reason }, invocation) =>
    replaceFile(context, invocation, async () => {
      const history = await readHistory(context.plansHistory);
      return Buffer.from(JSON.stringify({ text: await history.textOf(versionNamed(word, history)), reason }));
    }),
});

function resultOf<T>(outcome: Outcome<T>): T {
  if ('refusal' in outcome) throw new Refused(outcome.refusal.code, outcome.refusal.message);
  return outcome.result;
}
