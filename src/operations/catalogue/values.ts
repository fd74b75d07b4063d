import { z } from 'zod';
import { UNBOUNDED } from '../../admit/plan.ts';
import { eachWindow, WINDOWS } from '../../admit/windows.ts';

// The values that several operations take or give. The message of a value of an input is the end of a sentence about its member.

export const count = z.int().min(0);
/** An RFC 3339 time. */
export const time = z.string().meta({ format: 'date-time' });
/** A day of UTC. */
export const day = z.string().meta({ format: 'date' });
export const unixSeconds = z.int().describe('Unix seconds.');
export const windowName = z.enum(WINDOWS, `must be one of ${WINDOWS.join(', ')}`).meta({ id: 'Window' });

const limitRule = `must be a whole number from 0 to ${UNBOUNDED} or "unlimited"`;
const number = (rule: string) => z.int(rule).min(0, rule).max(UNBOUNDED, rule);
export const limit = z.union([number(limitRule), z.literal('unlimited')], limitRule).meta({ id: 'Limit' });
export const limitOrCustom = z.union([limit, z.literal('custom')]);

const editedRule = `${limitRule}, or null for the plan's own`;
const editedLimit = z
  .union([number(editedRule), z.literal('unlimited'), z.null()], editedRule)
  .meta({ id: 'EditedLimit' });

const limitsRule = `must be an object with ${WINDOWS.join(', ')}`;
export const limits = z
  .strictObject(
    eachWindow(() => limit.optional()),
    limitsRule,
  )
  .meta({ id: 'Limits' });
export const editedLimits = z.strictObject(
  eachWindow(() => editedLimit.optional()),
  limitsRule,
);

export const standingBan = z
  .strictObject({ number: count.min(1), until: unixSeconds })
  .nullable()
  .meta({ id: 'StandingBan' });

const amountRule = `must be a whole number from 1 to ${UNBOUNDED}`;
export const amount = z.int(amountRule).min(1, amountRule).max(UNBOUNDED, amountRule);

const MAX_PAGE = 1_000;
const pageRule = `must be a whole number from 1 to ${MAX_PAGE}`;

/** The members of the input of a list. */
export const PAGE = {
  limit: z.int(pageRule).min(1, pageRule).max(MAX_PAGE, pageRule).default(100).describe('Entries on a page.'),
  cursor: z.string().optional().describe('The `cursor` of the page before.'),
};

export const cursor = z
  .string()
  .nullable()
  .describe('Leads to the next page; null on the last one.')
  .meta({ id: 'Cursor' });

const flagRule = 'must be true or false';
/** False unless given. */
export const flag = z.boolean(flagRule).default(false);
