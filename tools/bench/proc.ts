import { readdirSync, readFileSync } from 'node:fs';

/** One line of /proc/PID/stat, as far as it is needed here. */
export interface ProcessStat {
  readonly pid: number;
  readonly parent: number;
  /** Clock ticks, user and system together, of the process and of its children that have ended. */
  readonly ticks: number;
  readonly rssPages: number;
}

export interface Usage {
  readonly cpuMs: number;
  readonly rssBytes: number;
}

/** USER_HZ: the same on every Linux, whatever the kernel's own frequency. */
const MS_PER_TICK = 10;
const PAGE_BYTES = 4096;

/** Reads a line of proc(5) `stat`. Null when it is none: the process has just ended. */
export function parseStat(text: string): ProcessStat | null {
  // The name stands in parentheses and may hold any character, these too.
  const nameEnd = text.lastIndexOf(')');
  const pid = Number.parseInt(text, 10);
  if (nameEnd === -1 || Number.isNaN(pid)) return null;
  const fields = text
    .slice(nameEnd + 2)
    .trim()
    .split(' ');
  // Counted from field 3 (state): 4 is the parent, 14 to 17 the times, 24 the resident pages.
  const number = (field: number) => Number(fields[field - 3]);
  const ticks = number(14) + number(15) + number(16) + number(17);
  return Number.isFinite(ticks) ? { pid, parent: number(4), ticks, rssPages: number(24) } : null;
}

/** A process and all that descend from it. */
export function familyOf(root: number, all: readonly ProcessStat[]): ProcessStat[] {
  const childrenOf = Map.groupBy(all, ({ parent }) => parent);
  const family = all.filter(({ pid }) => pid === root);
  for (const member of family) family.push(...(childrenOf.get(member.pid) ?? []));
  return family;
}

/** CPU time spent and memory held by a process and all that descend from it. */
export function usageOf(root: number): Usage {
  const family = familyOf(root, runningProcesses());
  return {
    cpuMs: family.reduce((sum, { ticks }) => sum + ticks, 0) * MS_PER_TICK,
    rssBytes: family.reduce((sum, { rssPages }) => sum + rssPages, 0) * PAGE_BYTES,
  };
}

function runningProcesses(): ProcessStat[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => statOf(name))
    .filter((stat) => stat !== null);
}

function statOf(pid: string): ProcessStat | null {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return null;
  }
}
