import { type MessagePort, parentPort } from 'node:worker_threads';
import { type Fault, inOrder, printFault } from '../../config/fault.ts';
import { type PlacedPlans, type PlanRoutes, warningsWithRoutes } from '../../config/plans-and-routes.ts';
import { parsePlans } from '../../config/plans-schema.ts';
import { faultOfText } from '../../config/read-file.ts';
import { field, isMapping } from '../../config/yaml.ts';
import { editedYaml } from '../../config/yaml-edit.ts';
import { readTree } from '../../config/yaml-tree.ts';
import type { Plan, Plans } from '../../model/plan.ts';
import type { RecentRecord, RecentRequest } from '../../simulate/recent-record.ts';
import { visible } from '../operation-values.ts';
import { type CountedUsers, faultsOfLostPlans } from '../plans-in-use.ts';
import { affectedBy, type ReachedPlan, type Reaches, reachesOf } from './affected.ts';
import { type Checked, draftEdits, type Results } from './draft-report.ts';
import { changesBetween, changeText } from './plan-changes.ts';
import { patchOf } from './plans-patch.ts';
import { groupsOfRecorded } from './recorded-groups.ts';
import { RecordedRequests, simulate } from './simulation.ts';
import { lostPlansOf, warningsOfUsers } from './warnings.ts';

// The program of a thread of PlanDrafts (drafts.ts). It does one task, on bodies and files that may take long to read.

/** What a thread does with a draft of plans.yaml. `body` is the JSON body of the request, which is not read yet. */
export type Task = { readonly body: Uint8Array; readonly file: string } & (
  | { readonly kind: 'check'; readonly users: Users }
  | { readonly kind: 'edit' }
  | {
      readonly kind: 'diff';
      readonly users: Users;
      readonly inForce: Plans;
      /** The text of the file as it is, and the path that the patch gives it. */
      readonly text: string;
      readonly path: string;
    }
  | { readonly kind: 'simulate'; readonly inForce: Plans }
  | { readonly kind: 'sound'; readonly inForce: Plans }
);

interface Users extends PlanRoutes {
  readonly hasTokens: boolean;
}

/** The count of live keys. */
export interface LiveCount extends CountedUsers {
  /** Those whom the draft affects. */
  readonly reached: ReadonlyMap<string, ReachedPlan>;
  readonly keysRead: number;
  /** False: there are more keys than could be read in time, or the store did not answer. */
  readonly isComplete: boolean;
}

/** What the thread asks the thread that serves for. */
export type Question = { readonly about: 'live'; readonly reaches: Reaches } | { readonly about: 'recent' };

/** A body that is no request for the task. */
export interface RefusedDraft {
  readonly code: 'invalid_request' | 'payload_too_large';
  readonly message: string;
}

export type FromThread =
  | ({ readonly kind: 'asks' } & Question)
  | { readonly kind: 'done'; readonly result: Results[keyof Results] }
  | { readonly kind: 'refused'; readonly refusal: RefusedDraft };

export type ToThread =
  /** The task, after the parts of the plans in force, which its own `inForce` lacks. */
  | { readonly kind: 'task'; readonly task: Task }
  | { readonly kind: 'plans'; readonly plans: readonly Plan[] }
  /** A part of the recent record, before its answer. */
  | { readonly kind: 'requests'; readonly requests: readonly RecentRequest[] }
  | { readonly kind: 'live'; readonly live: LiveCount }
  /** The end of the recent record; null if there is none. */
  | { readonly kind: 'recent'; readonly kept: RecordCoverage | null };

/** What the recent record covers. */
type RecordCoverage = Exclude<Awaited<ReturnType<RecentRecord['read']>>, null>;

/** Faults, and warnings, in one response. A page shows no more, and a draft may have a hundred thousand. */
const MAX_SHOWN = 1_000;
/** What the body of a task may have. */
const MEMBERS = {
  edit: ['text', 'edits', 'plan'],
  check: ['text'],
  sound: ['text', 'reason'],
  diff: ['text', 'from'],
  simulate: ['text', 'record', 'log'],
};
/** Size limit of the lines of a log, in bytes. */
const MAX_LOG_BYTES = 16 * 1024 * 1024;

class DraftThread {
  readonly #port: MessagePort;
  /** Null until a simulation begins. */
  #recorded: RecordedRequests | null = null;
  readonly #plansInForce = new Map<string, Plan>();
  #answer: ((message: ToThread) => void) | null = null;

  constructor(port: MessagePort) {
    this.#port = port;
    port.on('message', (message: ToThread) => {
      if (message.kind === 'task') void this.#do(message.task);
      else if (message.kind === 'plans') for (const plan of message.plans) this.#plansInForce.set(plan.name, plan);
      else if (message.kind === 'requests') this.#recorded?.add(message.requests);
      else this.#answer?.(message);
    });
  }

  async #do(task: Task): Promise<void> {
    const outcome = await this.#resultOf(task);
    this.#send('code' in outcome ? { kind: 'refused', refusal: outcome } : { kind: 'done', result: outcome });
  }

  async #resultOf(task: Task): Promise<Results[keyof Results] | RefusedDraft> {
    const body = bodyOf(task.body, MEMBERS[task.kind]);
    if ('code' in body) return body;
    const { text } = body.members;
    if (typeof text !== 'string') return invalid('text', text, 'must be text');
    if (task.kind === 'edit') return edit(body.members, task.file);
    const draft = readDraft(text, task.file);
    if (task.kind === 'sound') {
      const { reason = null } = body.members;
      if (reason !== null && typeof reason !== 'string') return invalid('reason', reason, 'must be text or null');
      if ('faults' in draft) return { ...shown(draft), sound: null };
      const { plans, removed } = draft.value;
      const differences = changesBetween(this.#withPlans(task.inForce), draft.value, null);
      const changes = differences.slice(0, MAX_SHOWN).map(changeText);
      return {
        ...shown(draft),
        sound: { text, plans: new Set(plans.keys()), removed, changes, reason: reason || null },
      };
    }
    if (task.kind === 'simulate') return this.#simulate(task, body.members, draft);
    if (task.kind === 'check') {
      return shown(draft, 'faults' in draft ? [] : warningsWithRoutes(draft, task.users));
    }
    return this.#compare(task, body.members, draft);
  }

  async #compare(
    task: Extract<Task, { kind: 'diff' }>,
    { text, from }: Body,
    draft: Draft,
  ): Promise<Results['diff'] | RefusedDraft> {
    if (from !== undefined && typeof from !== 'string') return invalid('from', from, 'must be text');
    const other = from === undefined ? null : readDraft(from, 'from');
    if (other !== null && 'faults' in other) return { code: 'invalid_request', message: printFault(other.faults[0]!) };
    if ('faults' in draft) {
      return { ...shown(draft), changes: [], affected: null, lost: [], refused: [], live: null, patch: '' };
    }
    const before = other?.value ?? this.#withPlans(task.inForce);
    const after = draft.value;
    const reaches = reachesOf(changesBetween(before, after, null));
    const live = await this.#live(reaches);
    const { keysRead, isComplete, unreadable } = live;
    const byPlan = isComplete ? live.byPlan : null;
    const changes = changesBetween(before, after, byPlan);
    const lost = byPlan === null ? [] : lostPlansOf(draft, byPlan);
    const ofUsers = byPlan === null ? [] : warningsOfUsers(draft, byPlan, task.users.hasTokens);
    return {
      ...shown(draft, [...lost, ...ofUsers, ...warningsWithRoutes(draft, task.users)]),
      changes,
      affected: isComplete ? affectedBy(live.reached, reaches, { before, after, changes }) : null,
      lost: lost.slice(0, MAX_SHOWN).map(withoutFile),
      refused: byPlan === null ? [] : faultsOfLostPlans({ before, after, file: task.file }, live),
      live: { keysRead, isComplete, unreadable },
      patch: patchOf(task.path, from ?? task.text, text as string),
    };
  }

  async #simulate(
    { inForce, file }: Extract<Task, { kind: 'simulate' }>,
    { record, log }: Body,
    draft: Draft,
  ): Promise<Results['simulate'] | RefusedDraft> {
    if ((record === undefined) === (log === undefined)) {
      return { code: 'invalid_request', message: 'Give either `record: "recent"` or `log`, the lines of a log.' };
    }
    if (record !== undefined && record !== 'recent') return invalid('record', record, 'must be "recent"');
    if (log !== undefined && typeof log !== 'string') return invalid('log', log, 'must be text');
    if (log !== undefined && Buffer.byteLength(log) > MAX_LOG_BYTES) {
      const message = `log is larger than ${MAX_LOG_BYTES} bytes. Give fewer lines, or use \`tollgate plans simulate\`.`;
      return { code: 'payload_too_large', message };
    }
    if ('faults' in draft) return { ...shown(draft), span: null, report: null };
    const before = this.#withPlans(inForce);
    const recorded = new RecordedRequests(groupsOfRecorded(draft.value, before));
    this.#recorded = recorded;
    const kept = log === undefined ? await this.#recent() : null;
    if (log === undefined && kept === null) {
      const message = 'This gateway keeps no record of recent requests. Give the lines of its log as `log`.';
      return { code: 'invalid_request', message };
    }
    if (log !== undefined) recorded.addLog(log);
    const sources = { plans: file, fromPlans: 'the plans in force', logs: [kept === null ? 'log' : 'recent'] };
    const simulation = simulate(recorded, { before, after: draft.value }, sources);
    if ('fault' in simulation) return { code: 'invalid_request', message: simulation.fault };
    return { ...shown(draft), ...simulation, kept: kept?.about ?? null, isComplete: kept?.isComplete ?? true };
  }

  #withPlans(inForce: Plans): Plans {
    return { ...inForce, plans: this.#plansInForce };
  }

  async #live(reaches: Reaches): Promise<LiveCount> {
    const answer = await this.#ask({ about: 'live', reaches });
    if (answer.kind !== 'live') throw new Error(`asked for the live keys, got ${answer.kind}`);
    return answer.live;
  }

  async #recent(): Promise<RecordCoverage | null> {
    const answer = await this.#ask({ about: 'recent' });
    if (answer.kind !== 'recent') throw new Error(`asked for the recent record, got ${answer.kind}`);
    return answer.kept;
  }

  #ask(question: Question): Promise<ToThread> {
    const { promise, resolve } = Promise.withResolvers<ToThread>();
    this.#answer = resolve;
    this.#send({ kind: 'asks', ...question });
    return promise;
  }

  #send(message: FromThread): void {
    this.#port.postMessage(message);
  }
}

type Body = Readonly<Record<string, unknown>>;

/** Reads the members of a JSON object, of which there must be no others than `names`. */
function bodyOf(bytes: Uint8Array, names: readonly string[]): { readonly members: Body } | RefusedDraft {
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return { code: 'invalid_request', message: 'The body is not valid JSON in UTF-8.' };
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return { code: 'invalid_request', message: 'The body must be a JSON object.' };
  }
  const foreign = Object.keys(body).find((name) => !names.includes(name));
  if (foreign === undefined) return { members: body as Body };
  return { code: 'invalid_request', message: `There is no member "${visible(foreign.slice(0, 60))}".` };
}

function invalid(name: string, value: unknown, rule: string): RefusedDraft {
  const message = value === undefined ? `${name} is missing: it ${rule}.` : `${name} ${rule}.`;
  return { code: 'invalid_request', message };
}

/** Changes the text, if it is YAML. The thread ends one that takes too long. */
function edit(members: Body, file: string): Results['edit'] | RefusedDraft {
  const given = draftEdits.safeParse(members);
  if (!given.success) {
    const { path, message } = given.error.issues[0]!;
    return { code: 'invalid_request', message: `${path.join('.')}: ${message}.` };
  }
  const { text, edits, plan } = given.data;
  const [, mark = '', yaml = ''] = /^(\uFEFF?)(.*)$/s.exec(text) ?? [];
  const isSound = (one: string) => faultOfText(one, file) === null && readTree(one).faults.length === 0;
  if (!isSound(yaml)) return { text, isReadable: false, plans: [], plan: null };
  const after = editedYaml(yaml, edits);
  const all = field(readTree(after).tree?.value, 'plans');
  const plans = isMapping(all) ? Object.keys(all) : [];
  const asked = field(all, plan ?? plans[0] ?? '');
  return { text: mark + after, isReadable: true, plans, plan: isMapping(asked) ? asked : null };
}

type Draft =
  | (PlacedPlans & { readonly warnings: readonly Fault[] })
  | { readonly faults: readonly Fault[]; readonly warnings: readonly Fault[] };

/** Checks a text as `plans check` checks a file with that text. */
function readDraft(text: string, file: string): Draft {
  const fault = faultOfText(text, file);
  if (fault !== null) return { faults: [fault], warnings: [] };
  return parsePlans(text, file);
}

function shown(draft: Draft, more: readonly Fault[] = []): Checked {
  const faults = 'faults' in draft ? draft.faults : [];
  const warnings = inOrder([...draft.warnings, ...more]);
  return {
    faults: faults.slice(0, MAX_SHOWN).map(withoutFile),
    moreFaults: Math.max(0, faults.length - MAX_SHOWN),
    warnings: warnings.slice(0, MAX_SHOWN).map(withoutFile),
    moreWarnings: Math.max(0, warnings.length - MAX_SHOWN),
  };
}

function withoutFile({ line, column, path, message }: Fault): Checked['faults'][number] {
  return { line, column, path, message };
}

if (parentPort !== null) new DraftThread(parentPort);
