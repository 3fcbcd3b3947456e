package hnsd

import (
	"regexp"
	"strings"
)

// guid finds the ids within a document; inside hnsd all are in lower case.
var guid = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)

// spelled returns a text with its ids in the case in which this HNS writes them.
func (p Profile) spelled(text string) string {
	if !p.TextFilters {
		return text
	}
	return guid.ReplaceAllStringFunc(text, strings.ToUpper)
}

// sameID reports whether the id of a filter matches the id of an object.
func (p Profile) sameID(filter, id string) bool {
	if p.TextFilters {
		return filter == p.spelled(id)
	}
	return canonicalID(filter) == id
}
