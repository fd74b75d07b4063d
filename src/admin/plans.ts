import { formText } from '../admit/form-text.ts';
import type { Plan, Plans } from '../admit/plan.ts';
import { WINDOWS } from '../admit/windows.ts';
import { versionState } from '../operations/load-record.ts';
import type { Outcome } from '../operations/plans/drafts.ts';
import { untilInForce, writePlans } from '../operations/plans/write.ts';
import type { Change } from '../operations/recorded.ts';
import type { Admin, Call } from './call.ts';
import { type AdminResponse, changeResponse, entityTagsOf, errorResponse, jsonResponse } from './response.ts';

// The resources below /admin/plans: the plans in force, drafts of plans.yaml, and the file itself.

/** The size limit of a body with a draft. JSON needs up to six bytes for a character of the text, which may have 512 KiB. */
export const DRAFT_BYTES = 4 * 1024 * 1024;
/** The size limit of a body with a draft and 16 MiB of a log, in which JSON escapes each quotation mark. */
export const SIMULATION_BYTES = 28 * 1024 * 1024;

/** The plans in force, each with its windows in words. */
export async function showPlans(_: Call, { operations, versions }: Admin): Promise<AdminResponse> {
  const { plans, failedAuthenticationPerMinute }: Plans = operations.plans;
  return jsonResponse(200, {
    versions: versions(),
    plans: [...plans.values()].map((plan) => ({ ...plan, windows: windowsOf(plan) })),
    failedAuthentication: { minute: failedAuthenticationPerMinute },
  });
}

function windowsOf({ limits, forms, shadow, shadowForms }: Plan) {
  const of = (part: Plan['limits'], partForms: Plan['forms'], isShadow: boolean) =>
    WINDOWS.flatMap((window) => {
      const limit = part[window];
      if (limit === undefined) return [];
      return [{ window, limit, form: formText(window, partForms?.[window]), shadow: isShadow }];
    });
  return [...of(limits, forms, false), ...of(shadow, shadowForms, true)];
}

export async function checkDraft({ body }: Call, { plans }: Admin): Promise<AdminResponse> {
  return responseTo(await plans.drafts.check(body as Uint8Array));
}

export async function diffDraft({ body }: Call, { plans, keys }: Admin): Promise<AdminResponse> {
  return responseTo(await plans.drafts.diff(body as Uint8Array, keys));
}

export async function simulateDraft({ body }: Call, { plans }: Admin): Promise<AdminResponse> {
  return responseTo(await plans.drafts.simulate(body as Uint8Array));
}

function responseTo(outcome: Outcome<object>): AdminResponse {
  if ('result' in outcome) return jsonResponse(200, outcome.result);
  const { code, message } = outcome.refusal;
  return errorResponse(code, message, code === 'busy' ? { 'Retry-After': '1' } : {});
}

export async function showPlansFile(_: Call, { plans }: Admin): Promise<AdminResponse> {
  const { file, mayWrite } = plans;
  const { text, version } = file.read();
  const whyNot = mayWrite ? await file.obstacle() : SWITCHED_OFF;
  const body = { text, path: file.name, version, writable: whyNot === null, whyNotWritable: whyNot };
  return jsonResponse(200, body, { ETag: `"${version}"` });
}

const SWITCHED_OFF =
  'The settings do not allow to write plans.yaml from here: set `admin: { editPlans: true }` in gateway.yaml and restart, or commit the patch.';

/** Replaces plans.yaml, and waits until this gateway has it in force. */
export async function writePlansFile(call: Call, { plans, keys, auditStore }: Admin): Promise<AdminResponse> {
  if (!plans.mayWrite) return errorResponse('forbidden', SWITCHED_OFF);
  const { file, inForce } = plans;
  const ifMatch = call.fields('if-match');
  if (ifMatch.length === 0) {
    const what =
      'Send If-Match with the ETag of GET /admin/plans/file, so that no change of somebody else is overwritten.';
    return errorResponse('precondition_required', what);
  }
  const tags = entityTagsOf(ifMatch.join(','));
  if (tags !== null && 'status' in tags) return tags;
  const isExpected = (version: string) => tags === null || tags.includes(`"${version}"`);
  const checked = await plans.drafts.sound(call.body as Uint8Array);
  if ('refusal' in checked) return responseTo(checked);
  const { sound, ...faults } = checked.result;
  if (sound === null) {
    const { status, body, fields } = errorResponse('invalid_plans', 'The text has faults. Nothing was written.');
    return { status, body: { ...body, ...faults }, fields };
  }
  const monotonicMs = () => performance.now();
  const done = await writePlans(sound, isExpected, { file, inForce, keys, monotonicMs });
  if (done.kind === 'changed') {
    const message = 'plans.yaml has been changed since. Read it again and look at what has changed.';
    return errorResponse('precondition_failed', message, { ETag: `"${done.version}"` });
  }
  const { before, version } = done;
  const isSame = before === version;
  // The gateways find that this version is recorded, and add no entry of their own when they take it.
  if (!isSame) await auditStore.exchangeLoad('plans', { from: null, to: version, since: null }).catch(() => {});
  const change: Change = isSame
    ? { outcome: 'unchanged', target: null, before: null, after: null }
    : { target: null, before: { version: before }, after: versionState(version, sound.changes) };
  const isInForce = await untilInForce(version, inForce, monotonicMs);
  const why = isInForce ? null : inForce.faults.join('\n') || 'The gateway has not read the file yet.';
  return changeResponse(200, change, { version, inForce: isInForce, whyNotInForce: why }, { ETag: `"${version}"` });
}
