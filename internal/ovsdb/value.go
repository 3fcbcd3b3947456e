package ovsdb

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// UUID is the identity of a row that the database has.
type UUID string

// MarshalJSON implements json.Marshaler (RFC 7047, section 5.1, <uuid>).
func (u UUID) MarshalJSON() ([]byte, error) { return json.Marshal([]string{"uuid", string(u)}) }

// Named refers to a row that the same transaction inserts under that uuid-name.
type Named string

// MarshalJSON implements json.Marshaler (RFC 7047, section 5.1, <named-uuid>).
func (n Named) MarshalJSON() ([]byte, error) { return json.Marshal([]string{"named-uuid", string(n)}) }

// Set is a column of any number of values: strings, numbers, booleans, UUIDs or Named.
type Set []any

// MarshalJSON implements json.Marshaler (RFC 7047, section 5.1, <set>).
func (s Set) MarshalJSON() ([]byte, error) {
	if s == nil {
		s = Set{}
	}
	return json.Marshal([]any{"set", []any(s)})
}

// Map is the value of a column that maps strings to strings, as external_ids.
type Map map[string]string

// MarshalJSON implements json.Marshaler (RFC 7047, section 5.1, <map>). The order is that of the keys.
func (m Map) MarshalJSON() ([]byte, error) {
	pairs := make([][2]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, [2]string{k, m[k]})
	}
	return json.Marshal([]any{"map", pairs})
}

// Row holds the columns of a row by name, each value as decoded from JSON. The methods below read one column. They
// return the zero value if the column is missing or has another type.
type Row map[string]any

// Text returns a column that holds one value. It returns "" for an empty set and for a set of several values.
func (r Row) Text(column string) string {
	if texts := r.Texts(column); len(texts) == 1 {
		return texts[0]
	}
	return ""
}

// Texts returns the values of a column as text: strings, UUIDs, booleans or numbers. Their order has no meaning.
func (r Row) Texts(column string) []string {
	var out []string
	for _, v := range elements(r[column]) {
		if t, ok := atom(v); ok {
			out = append(out, t)
		}
	}
	return out
}

// UUIDs returns a column of references.
func (r Row) UUIDs(column string) []UUID {
	var out []UUID
	for _, t := range r.Texts(column) {
		out = append(out, UUID(t))
	}
	return out
}

// Map returns a column that maps strings to strings, as external_ids. The result is never nil.
func (r Row) Map(column string) Map {
	out := Map{}
	pair, ok := r[column].([]any)
	if !ok || len(pair) != 2 || pair[0] != "map" {
		return out
	}
	list, _ := pair[1].([]any)
	for _, e := range list {
		if kv, ok := e.([]any); ok && len(kv) == 2 {
			k, _ := atom(kv[0])
			v, _ := atom(kv[1])
			out[k] = v
		}
	}
	return out
}

// elements returns the values of a set; a single value is a set of one.
func elements(v any) []any {
	if pair, ok := v.([]any); ok && len(pair) == 2 && pair[0] == "set" {
		list, _ := pair[1].([]any)
		return list
	}
	if v == nil {
		return nil
	}
	return []any{v}
}

// atom returns the text of a single value.
func atom(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true // 1000000, not 1e+06
	case []any:
		if len(v) == 2 && (v[0] == "uuid" || v[0] == "named-uuid") {
			t, ok := v[1].(string)
			return t, ok
		}
	}
	return "", false
}
