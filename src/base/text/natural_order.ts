// Created at its first use, because that loads the language tables, which takes 7 ms.
let collator: Intl.Collator | undefined;

/** Order of names as a person counts: `loss/2` before `loss/10`. */
export const natural = (a: string, b: string): number =>
  (collator ??= new Intl.Collator("en", { numeric: true })).compare(a, b);
