/** The settings of node-redlock, and the time that they allow. */

export interface Settings {
  /** By how much clocks may differ in speed: the `expiration` of a lock is earlier than its end by this part. */
  readonly driftFactor: number;
  /** For how many more attempts there is time after the first; -1: without a limit. */
  readonly retryCount: number;
  /** The time between two attempts, in ms, and how much longer or shorter it may be by chance. */
  readonly retryDelay: number;
  readonly retryJitter: number;
  /** Checked, and not needed otherwise: the server renews the lock of `using`. */
  readonly automaticExtensionThreshold: number;
}

const DEFAULTS: Settings = Object.freeze({
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
});

/** The given settings that are numbers; for all others `others`. */
export function settingsOf(given: Partial<Settings> = {}, others: Settings = DEFAULTS): Settings {
  const numbers = Object.entries(given).filter(([name, value]) => name in DEFAULTS && typeof value === "number");
  return { ...others, ...Object.fromEntries(numbers) };
}

/** How many attempts the settings allow. */
export const attemptsOf = ({ retryCount }: Settings): number => (retryCount === -1 ? Infinity : Math.max(0, Math.floor(retryCount)) + 1);

/** The pause between two attempts. */
export const pauseOf = ({ retryDelay, retryJitter }: Settings): number =>
  Math.max(0, retryDelay + Math.floor((Math.random() * 2 - 1) * retryJitter));

/** How long all attempts together may take, in ms. */
export function windowOf(settings: Settings): number {
  const attempts = attemptsOf(settings);
  return attempts === Infinity ? Infinity : (attempts - 1) * settings.retryDelay;
}
