// Package tutorial runs documents whose commands are for a terminal: each line that begins with "# " in a block of the
// language console, in order, in one shell. It compares what is printed with the lines below the command.
package tutorial
