package ovsdb

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestEncoding compares values and operations with the notation of RFC 7047, section 5.
func TestEncoding(t *testing.T) {
	for want, v := range map[string]any{
		`["uuid","a-b"]`:                                 UUID("a-b"),
		`["named-uuid","n1"]`:                            Named("n1"),
		`["set",[]]`:                                     Set(nil),
		`["set",["x",["named-uuid","n"]]]`:               Set{"x", Named("n")},
		`["map",[["a","1"],["b","2"]]]`:                  Map{"b": "2", "a": "1"},
		`["map",[]]`:                                     Map(nil),
		`{"op":"delete","table":"T","where":[]}`:         Delete("T", nil),
		`{"op":"assert","lock":"l"}`:                     Assert("l"),
		`{"op":"insert","row":{"name":"x"},"table":"T"}`: Insert("T", "", map[string]any{"name": "x"}),
		`{"columns":["name"],"op":"select","table":"T","where":[["_uuid","==",["uuid","i"]]]}`: Select(
			"T", ByUUID("i"), "name"),
		`{"mutations":[["ports","insert",["set",[["named-uuid","p"]]]]],"op":"mutate","table":"T","where":[]}`: Mutate(
			"T", nil, Mutation{"ports", "insert", Set{Named("p")}}),
	} {
		got, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if sorted(t, got) != sorted(t, []byte(want)) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// sorted returns JSON with the keys of its objects in order.
func sorted(t *testing.T, data []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestRow reads columns as a server writes them: a set of one value is written as that value.
func TestRow(t *testing.T) {
	var row Row
	err := json.Unmarshal([]byte(`{"name":"x","none":["set",[]],"two":["set",["a","b"]],"ref":["uuid","u1"],"refs":["set",[["uuid","u1"],["uuid","u2"]]],
		"large":1000000,"up":true,"ids":["map",[["k","v"],["n",7]]]}`), &row)
	if err != nil {
		t.Fatal(err)
	}
	for column, want := range map[string]string{"name": "x", "none": "", "two": "", "ref": "u1", "large": "1000000",
		"up": "true", "ids": "", "missing": ""} {
		if got := row.Text(column); got != want {
			t.Errorf("text of %s: %q, want %q", column, got, want)
		}
	}
	for column, want := range map[string][]UUID{"ref": {"u1"}, "refs": {"u1", "u2"}, "none": nil, "missing": nil} {
		if got := row.UUIDs(column); !slices.Equal(got, want) {
			t.Errorf("references of %s: %v, want %v", column, got, want)
		}
	}
	if got := row.Map("ids"); len(got) != 2 || got["k"] != "v" || got["n"] != "7" {
		t.Errorf("map: %v", got)
	}
	if got := row.Map("name"); got == nil || len(got) > 0 {
		t.Errorf("map of a column that holds a string: %v, want an empty one", got)
	}
}

func TestParse(t *testing.T) {
	for address, want := range map[string]string{
		"unix:/run/db.sock": "unix /run/db.sock", " tcp:10.0.0.1:6641": "tcp 10.0.0.1:6641",
		"tcp:[::1]:6641":    "tcp [::1]:6641",
		"ssl:10.0.0.1:6641": "", "tcp:10.0.0.1": "", "/run/db.sock": "", "": "",
	} {
		network, at, err := Parse(address)
		if (err == nil) != (want != "") || err == nil && network+" "+at != want {
			t.Errorf("%q: %s %s, %v; want %q", address, network, at, err, want)
		}
	}
}
