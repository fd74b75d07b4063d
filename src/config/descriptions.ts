import { type PathChange, patternAfter } from '../routing/path-template.ts';
import { withHead } from '../routing/router.ts';
import type { DescribedRoute, ReadDescriptions } from './compiled-descriptions.ts';
import type { Fault, Path } from './fault.ts';
import { type GatewayFile, methodsOf } from './gateway-file.ts';
import { signatureOf } from './read-file.ts';

/*
 * The descriptions that gateway.yaml names (`validate`).
 */

/** The routes whose requests are checked, as the service gets their paths. */
export function describedRequests({ routes, upstreams }: GatewayFile): readonly DescribedRoute[] {
  return routes.flatMap(({ path, methods, rewrite, upstream = '', validate, redirect, respond }, i) => {
    const file = validate ?? upstreams[upstream]?.validate;
    if (file === undefined || file === false || redirect !== undefined || respond !== undefined) return [];
    const at: Path = validate === undefined ? ['upstreams', upstream, 'validate'] : ['routes', i, 'validate'];
    const pattern = rewrite === undefined ? path : patternAfter(path, rewrite as PathChange);
    return [{ file, at, path, pattern, methods: withHead(methodsOf({ methods })) }];
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
  const { compileDescriptions } = await import('./compiled-descriptions.ts');
  return { ...compileDescriptions(files, routes, gateway, isReload), signature };
}
