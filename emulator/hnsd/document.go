package hnsd

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// Doc is a JSON object as it came in: unknown fields stay and are given back. Numbers are json.Number.
type Doc map[string]any

// parseDoc decodes a text that is one object and nothing else.
func parseDoc(text string) (Doc, error) {
	var d Doc
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&d); err != nil || d == nil {
		return nil, ErrInvalidJSON
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, ErrInvalidJSON
	}
	return d, nil
}

// ParseDoc decodes a text that is one object and nothing else. Of any other text it returns nil.
func ParseDoc(text string) Doc {
	d, err := parseDoc(text)
	if err != nil {
		return nil
	}
	return d
}

// copy is a deep copy in which every value has the types of a decoded document.
// It goes by JSON, which turns numbers and lists of Go into those of a decoded document. A document
// that cannot be encoded becomes an empty one.
func (d Doc) copy() Doc {
	data, err := json.Marshal(d)
	if err != nil {
		return Doc{}
	}
	var out Doc
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if dec.Decode(&out) != nil || out == nil {
		return Doc{}
	}
	return out
}

// String is the document as JSON.
func (d Doc) String() string {
	data, err := json.Marshal(d)
	if err != nil {
		return "{}"
	}
	return string(data)
}

// key finds the spelling under which a field is present; exact spelling wins.
func (d Doc) key(name string) (string, bool) {
	if _, ok := d[name]; ok {
		return name, true
	}
	// Among several spellings that differ in case only, the one that is found is not determined.
	for k := range d {
		if strings.EqualFold(k, name) {
			return k, true
		}
	}
	return name, false
}

// value returns the field in whatever case its name is; nil if it is absent or null.
func (d Doc) value(name string) any {
	k, ok := d.key(name)
	if !ok {
		return nil
	}
	return d[k]
}

func (d Doc) has(name string) bool { return d.value(name) != nil }

// set replaces a field whatever its spelling was.
func (d Doc) set(name string, v any) {
	if k, ok := d.key(name); ok && k != name {
		delete(d, k)
	}
	d[name] = v
}

// str reads a text or a number as text; "" for anything else.
func (d Doc) str(name string) string {
	switch v := d.value(name).(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// num reads a number, also one given as text.
func (d Doc) num(name string) uint64 {
	n, _ := strconv.ParseUint(d.str(name), 10, 64)
	// Documents that Go code made have Go's integers; decoded ones have json.Number, which str
	// reads.
	if n == 0 {
		switch v := d.value(name).(type) {
		case int:
			return uint64(v)
		case uint64:
			return v
		}
	}
	return n
}

// flag reads true, and the text "true" in any case.
func (d Doc) flag(name string) bool {
	v, _ := d.value(name).(bool)
	return v || strings.EqualFold(d.str(name), "true")
}

func (d Doc) doc(name string) Doc { return asDoc(d.value(name)) }

// asDoc returns an empty document for what is no object, so that fields can be asked for in any
// case. It shares an object with its owner.
func asDoc(v any) Doc {
	switch v := v.(type) {
	case Doc:
		return v
	case map[string]any:
		return Doc(v)
	case string: // settings are now and then given as text
		if sub, err := parseDoc(v); err == nil {
			return sub
		}
	}
	return Doc{}
}

// docs reads a list of objects; elements that are no object are empty documents. The objects are
// shared.
func (d Doc) docs(name string) []Doc {
	var out []Doc
	switch list := d.value(name).(type) {
	case []any:
		for _, v := range list {
			out = append(out, asDoc(v))
		}
	case []Doc:
		return list
	}
	return out
}

// strs reads a list of strings, also one given as a single comma-separated text.
func (d Doc) strs(name string) []string {
	var out []string
	switch v := d.value(name).(type) {
	case []any:
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
	case []string:
		return v
	case string:
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s != "" {
				out = append(out, s)
			}
		}
	}
	return out
}

// covers reports whether every field given in want has the same value in d; hardware addresses match in any notation.
func (d Doc) covers(want Doc) bool {
	for name, w := range want {
		if !sameValue(d.value(name), w) {
			return false
		}
	}
	return true
}

// sameValue compares two values of decoded documents; two valid hardware addresses by what they
// mean.
func sameValue(have, want any) bool {
	hs, ok1 := have.(string)
	ws, ok2 := want.(string)
	if ok1 && ok2 {
		return hs == ws || canonicalMAC(hs) != "" && canonicalMAC(hs) == canonicalMAC(ws)
	}
	return reflect.DeepEqual(have, want)
}

// canonicalID is a GUID in lower case without braces, or "" if it is not valid.
func canonicalID(id string) string {
	id = strings.ToLower(strings.Trim(id, "{}"))
	if len(id) != 36 {
		return ""
	}
	for i, c := range id {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (c == '-') || !dash && !strings.ContainsRune("0123456789abcdef", c) {
			return ""
		}
	}
	return id
}

// ZeroID is what an unattached endpoint has as its namespace.
const ZeroID = "00000000-0000-0000-0000-000000000000"

// canonicalMAC is upper case with dashes, or "" if mac is not valid.
func canonicalMAC(mac string) string {
	hex := strings.ToUpper(strings.NewReplacer("-", "", ":", "").Replace(mac))
	if len(hex) != 12 || len(mac) != 17 || strings.Trim(hex, "0123456789ABCDEF") != "" {
		return ""
	}
	var parts []string
	for i := 0; i < 12; i += 2 {
		parts = append(parts, hex[i:i+2])
	}
	return strings.Join(parts, "-")
}

// enum reads an enumeration given as text in any case or as its number, and gives the canonical word, or "".
// words are in the order of their numbers, from 0.
func enum(d Doc, name string, words ...string) string {
	v := d.str(name)
	for i, w := range words {
		if strings.EqualFold(v, w) || v == strconv.Itoa(i) {
			return w
		}
	}
	return ""
}

// Text returns a field that is a text; "" if it is not there or something else.
func (d Doc) Text(field string) string { return d.str(field) }
