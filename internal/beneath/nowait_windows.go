package beneath

// noWait is empty: names of a disk on Windows do not wait when they are opened.
const noWait = 0
