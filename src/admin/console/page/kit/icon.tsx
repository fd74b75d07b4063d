/**
 * The drawings of Lucide 1.62.0 as paths on a ground of 24 by 24: copyright (c) Lucide Icons and Contributors, under the ISC
 * licence of https://lucide.dev/license.
 */
const DRAWINGS = {
  activity:
    'M22 12h-2.48a2 2 0 0 0-1.93 1.46l-2.35 8.36a.25.25 0 0 1-.48 0L9.24 2.18a.25.25 0 0 0-.48 0l-2.35 8.36A2 2 0 0 1 4.49 12H2',
  alert: 'm21.73 18-8-14a2 2 0 0 0-3.48 0l-8 14A2 2 0 0 0 4 21h16a2 2 0 0 0 1.73-3M12 9v4M12 17h.01',
  back: 'm15 18-6-6 6-6',
  book: 'M12 5v16M20 19a2 2 0 0 0 2-2V5a2 2 0 0 0-2-2h-4a5 5 0 0 0-4 2 5 5 0 0 0-4-2H4a2 2 0 0 0-2 2v12a2 2 0 0 0 2 2h4a5 5 0 0 1 4 2 5 5 0 0 1 4-2z',
  calendar:
    'M16 2v3M2 2l20 20M21 9h-5.5M3 9h6M3.586 3.586A2 2 0 0 0 3 5v14a2 2 0 0 0 2 2h14a2 2 0 0 0 1.414-.586M8.656 3H19a2 2 0 0 1 2 2v10.344',
  chart: 'M3 3v16a2 2 0 0 0 2 2h16M7 16h8M7 11h12M7 6h3',
  check: 'M20 6 9 17l-5-5',
  copy: 'M10 8h10a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2H10a2 2 0 0 1-2-2V10a2 2 0 0 1 2-2M4 16a2 2 0 0 1-2-2V4a2 2 0 0 1 2-2h10a2 2 0 0 1 2 2',
  customer:
    'M10 12h4M10 8h4M14 21v-3a2 2 0 0 0-4 0v3M6 10H4a2 2 0 0 0-2 2v7a2 2 0 0 0 2 2h16a2 2 0 0 0 2-2V9a2 2 0 0 0-2-2h-2M6 21V5a2 2 0 0 1 2-2h8a2 2 0 0 1 2 2v16',
  down: 'm6 9 6 6 6-6',
  explain:
    'M6 22a2 2 0 0 1-2-2V4a2 2 0 0 1 2-2h8a2.4 2.4 0 0 1 1.704.706l3.588 3.588A2.4 2.4 0 0 1 20 8v12a2 2 0 0 1-2 2zM14 2v5a1 1 0 0 0 1 1h5M14 14.5a2.5 2.5 0 1 1-5 0a2.5 2.5 0 1 1 5 0M13.3 16.3 15 18',
  key: 'M2.586 17.414A2 2 0 0 0 2 18.828V21a1 1 0 0 0 1 1h3a1 1 0 0 0 1-1v-1a1 1 0 0 1 1-1h1a1 1 0 0 0 1-1v-1a1 1 0 0 1 1-1h.172a2 2 0 0 0 1.414-.586l.814-.814a6.5 6.5 0 1 0-4-4zM16.5 7.5h.01',
  out: 'm16 17 5-5-5-5M21 12H9M9 21H5a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2h4',
  plans:
    'M6 22a2 2 0 0 1-2-2V4a2 2 0 0 1 2-2h8a2.4 2.4 0 0 1 1.704.706l3.588 3.588A2.4 2.4 0 0 1 20 8v12a2 2 0 0 1-2 2zM14 2v5a1 1 0 0 0 1 1h5M8 12h8M10 11v2M8 17h8M14 16v2',
  plus: 'M5 12h14M12 5v14',
  pulse: 'm12 14 4-4M3.34 19a10 10 0 1 1 17.32 0',
  ring: 'M22 12a10 10 0 1 1-20 0a10 10 0 1 1 20 0',
  scroll:
    'M15 12h-5M15 8h-5M19 17V5a2 2 0 0 0-2-2H4M8 21h12a2 2 0 0 0 2-2v-1a1 1 0 0 0-1-1H11a1 1 0 0 0-1 1v1a2 2 0 1 1-4 0V5a2 2 0 1 0-4 0v2a1 1 0 0 0 1 1h3',
  search: 'm21 21-4.34-4.34M19 11a8 8 0 1 1-16 0a8 8 0 1 1 16 0',
  server:
    'M4 2h16a2 2 0 0 1 2 2v4a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2V4a2 2 0 0 1 2-2M4 14h16a2 2 0 0 1 2 2v4a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2v-4a2 2 0 0 1 2-2M6 6h.01M6 18h.01',
  stop: 'M8.7 2h6.6L22 8.7v6.6L15.3 22H8.7L2 15.3V8.7zM15 9l-6 6M9 9l6 6',
  up: 'm18 15-6-6-6 6',
  user: 'M17 8a5 5 0 1 1-10 0a5 5 0 1 1 10 0M20 21a8 8 0 0 0-16 0',
} as const;

export type IconName = keyof typeof DRAWINGS;

/** An icon beside words, or in a button that has a name of its own: screen readers leave it out. */
export function Icon({ of }: { of: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={DRAWINGS[of]} />
    </svg>
  );
}
