/** Why a receiver has not taken something. */
export interface Refusal {
  why: string;
  /** Trying again is no use. */
  final: boolean;
}

/** Of an HTTP status: the request itself is wrong. */
export function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && ![408, 425, 429].includes(status);
}
