/** A package that the gateway needs at run time. */
export interface LockedPackage {
  /** Where it lies: `node_modules/pino`. */
  readonly path: string;
  readonly name: string;
  readonly version: string;
  /** The SPDX expression that the package gives. */
  readonly licence: string;
}

/**
 * The packages of package-lock.json without those of development and Node.js itself, by name.
 * @throws Error if one has no licence, which nobody may then pass on
 */
export function productionPackages(lock: string): readonly LockedPackage[] {
  const { packages } = JSON.parse(lock) as {
    packages: Record<
      string,
      { version: string; license?: string; link?: boolean; dev?: boolean; devOptional?: boolean; optional?: boolean }
    >;
  };
  return (
    Object.entries(packages)
      // What a link leads to has an entry of its own.
      .filter(
        ([path, { link, dev, devOptional, optional }]) => path !== '' && !link && !dev && !devOptional && !optional,
      )
      .map(([path, { version, license }]) => {
        const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
        if (license === undefined) throw new Error(`${name} ${version} has no licence in package-lock.json.`);
        return { path, name, version, licence: license };
      })
      .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.version < b.version ? -1 : 1))
  );
}
