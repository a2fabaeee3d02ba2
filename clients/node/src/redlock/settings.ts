/** The settings of node-redlock, and the time that they allow. */

export interface Settings {
  /** By how much clocks may differ in speed: what a lock's `expiration` is earlier than its end. */
  readonly driftFactor: number;
  /** How many more attempts there are time for after the first; -1: for ever. */
  readonly retryCount: number;
  /** The time between two attempts, in ms, and how much longer or shorter it may be by chance. */
  readonly retryDelay: number;
  readonly retryJitter: number;
  /** Checked, and not needed otherwise: `using` holds its lock without extensions. */
  readonly automaticExtensionThreshold: number;
}

const DEFAULTS: Settings = Object.freeze({
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
});

/** These settings where they are numbers, else those. */
export function settingsOf(given: Partial<Settings>, others: Settings = DEFAULTS): Settings {
  const names = Object.keys(DEFAULTS) as (keyof Settings)[];
  return Object.fromEntries(names.map((name) => [name, typeof given[name] === "number" ? given[name] : others[name]])) as
    unknown as Settings;
}

/** How many attempts the settings allow. */
export const attemptsOf = ({ retryCount }: Settings): number => (retryCount === -1 ? Infinity : Math.max(0, Math.floor(retryCount)) + 1);

/** The pause between two attempts. */
export const pauseOf = ({ retryDelay, retryJitter }: Settings): number =>
  Math.max(0, retryDelay + Math.floor((Math.random() * 2 - 1) * retryJitter));

/** For how long all attempts may go on, in ms. */
export function windowOf(settings: Settings): number {
  const attempts = attemptsOf(settings);
  if (attempts === Infinity) return Infinity;
  let window = 0;
  for (let pause = 1; pause < attempts; pause += 1) window += pauseOf(settings);
  return window;
}
