package beneath

// NoWait is empty: names of a disk on Windows do not wait when they are opened.
const NoWait = 0
