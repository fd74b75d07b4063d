export const hasBuildah = () => false;
export const buildImage = (f: string): never => {
  throw new Error(f);
};
