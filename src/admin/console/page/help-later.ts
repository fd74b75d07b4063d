import { later } from './kit/later.ts';

/** The dialogs of help.ts. The browser loads them when the first one is opened. */
export const LiftDialog = later(async () => (await import('./help.ts')).LiftDialog);
export const TopUpDialog = later(async () => (await import('./help.ts')).TopUpDialog);
