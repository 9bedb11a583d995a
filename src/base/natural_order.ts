const collator = new Intl.Collator("en", { numeric: true });

/** Order of names as a person counts: `loss/2` before `loss/10`. */
export const natural = (a: string, b: string): number => collator.compare(a, b);
