import { later } from './kit/later.tsx';

/** The help for a caller, which the browser loads when the first dialog is opened. */
export const HelpDialog = later(async () => (await import('./help.tsx')).HelpDialog);
