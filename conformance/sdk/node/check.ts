// What the programs of this folder share.

export function env(name: string): string {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set`)
  return value
}

export function check(holds: boolean, got: unknown): void {
  if (!holds) throw new Error(JSON.stringify(got, (_, value) => (typeof value === 'bigint' ? String(value) : value)))
}
