import type { Route } from '../routing/route.ts';
import type { DescribedRoute, ReadDescriptions } from './compiled-descriptions.ts';
import type { Fault, Path } from './fault.ts';
import type { GatewayFile } from './gateway-schema.ts';
import { signatureOf } from './read-file.ts';

/*
 * The descriptions that gateway.yaml names (`validate`).
 */

/** The routes whose requests are checked, as the service gets their paths. @param entries what gateway.yaml says of each */
export function describedRequests(
  routes: readonly Route[],
  { routes: entries }: Pick<GatewayFile, 'routes'>,
): readonly DescribedRoute[] {
  return routes.flatMap(({ path, methods, rewrite, upstream, description: file }, i) => {
    if (file === null) return [];
    const at: Path =
      entries[i]!.validate === undefined ? ['upstreams', upstream, 'validate'] : ['routes', i, 'validate'];
    return [{ file, at, path, pattern: rewrite?.pattern ?? path, methods }];
  });
}

/** Reads the descriptions, each once. @param gateway the positions of gateway.yaml */
export async function readDescriptions(
  routes: readonly DescribedRoute[],
  gateway: { locate(path: Path): Fault },
  isReload: boolean,
): Promise<ReadDescriptions> {
  const files = [...new Set(routes.map(({ file }) => file))];
  const signature = signatureOf(files);
  if (files.length === 0) return { programs: new Map(), texts: [], signature, faults: [], warnings: [] };
  // Here, because few gateways and commands read descriptions, and need the compiler of their schemas.
  const { compileDescriptions } = await import('./compiled-descriptions.ts');
  return { ...compileDescriptions(files, routes, gateway, isReload), signature };
}
