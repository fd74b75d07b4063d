/** The request that does the same as the page would. */
export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: object | undefined;
}

const catching = { isOn: false };

/** In place of a request that was to be shown and not sent. */
class Caught extends Error {
  readonly asked: Asked;

  constructor(asked: Asked) {
    super('This request is shown and not sent.');
    this.asked = asked;
  }
}

/** Called before each request that changes something. @throws what ends it while `commandOf` asks for it */
export function catchIfAsked(asked: Asked): void {
  if (catching.isOn) throw new Caught(asked);
}

/**
 * The command for a shell that makes the change of `act`, which must be one request that is sent by `request`: it is not sent.
 * The token stays a variable, so that no secret gets to the clipboard.
 * @returns null if there is nothing to send
 * @throws what `act` throws before its request
 */
export async function commandOf(act: () => Promise<unknown>): Promise<string | null> {
  catching.isOn = true;
  try {
    await act();
    return null;
  } catch (error) {
    if (error instanceof Caught) return textOf(error.asked);
    throw error;
  } finally {
    catching.isOn = false;
  }
}

/** The command for a shell that sends a request of a caller once more: without its query and its body, which the gateway does not keep. */
export function requestCommand(method: string, url: string): string {
  const how = method === 'GET' ? '' : method === 'HEAD' ? ' --head' : ` -X ${method}`;
  return `curl${how} ${quoted(url)} -H "Authorization: Bearer $TOLLGATE_KEY"`;
}

function textOf({ method, path, headers, body }: Asked): string {
  const fields = Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  return [
    `curl -X ${method} ${quoted(window.location.origin + path)}`,
    '-H "Authorization: Bearer $TOLLGATE_TOKEN"',
    ...fields,
    ...(body === undefined ? [] : [`--data-raw ${quoted(JSON.stringify(body))}`]),
  ].join(' \\\n  ');
}

/** A word of a shell: nothing in single quotes has a meaning there. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
