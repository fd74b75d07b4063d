import { spawn } from 'node:child_process';

/** How long the program that opens the browser may take to fail, milliseconds. After that it counts as having opened it. */
const FAILS_WITHIN_MS = 3_000;
/** What the URL of a link consists of. No shell and no `cmd` gives any of these a meaning. */
const PLAIN_URL = /^https?:\/\/[\w.:[\]-]+\/[\w./-]*(?:#[\w=-]+)?$/;

/** The program that opens a URL in the default browser, with its arguments. */
export function openerOf(platform: NodeJS.Platform, url: string): readonly [program: string, args: readonly string[]] {
  if (platform === 'darwin') return ['open', [url]];
  // `start` is a command of cmd. Its first argument in quotes is the title of a window.
  if (platform === 'win32') return ['cmd', ['/d', '/c', 'start', '""', `"${url}"`]];
  return ['xdg-open', [url]];
}

/**
 * Opens a URL in the default browser, in a process of its own that outlives this one.
 * @param env the environment of the browser
 * @returns null if it was opened, else why not, as a part of a sentence without the URL
 */
export function openInBrowser(
  url: string,
  { env, platform = process.platform }: { readonly env: NodeJS.ProcessEnv; readonly platform?: NodeJS.Platform },
): Promise<string | null> {
  if (!PLAIN_URL.test(url)) return Promise.resolve('its address has unusual characters');
  const [program, args] = openerOf(platform, url);
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      env,
      detached: true,
      stdio: 'ignore',
      windowsHide: true,
      windowsVerbatimArguments: true,
    });
    const timer = setTimeout(() => resolve(null), FAILS_WITHIN_MS);
    const end = (why: string | null) => {
      clearTimeout(timer);
      resolve(why);
    };
    child.once('error', ({ code }: NodeJS.ErrnoException) =>
      end(code === 'ENOENT' ? `${program} is not on the PATH` : `${program} cannot be started (${code})`),
    );
    child.once('exit', (code, signal) => {
      end(code === 0 ? null : `${program} ended with ${signal ?? `code ${code}`}`);
    });
    child.unref();
  });
}
