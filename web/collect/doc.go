// Package collect keeps what `porthole web` knows: one set of watches on the API server, and the answers of each
// node's programs, which it asks each second while somebody looks and each ten seconds otherwise. After a change it
// makes one new document for all browsers.
package collect
