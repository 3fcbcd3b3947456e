package ovsdb

import (
	"encoding/json"
	"fmt"
)

// Op is one operation of a transaction (RFC 7047, section 5.2). The functions below make them.
type Op map[string]any

// Where selects the rows for which all conditions hold; nil selects all rows.
type Where []Condition

// Condition compares a column with a value.
type Condition struct {
	Column, Function string
	Value            any
}

// MarshalJSON implements json.Marshaler.
func (c Condition) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{c.Column, c.Function, c.Value})
}

// ByUUID selects one row.
func ByUUID(id UUID) Where { return Where{{"_uuid", "==", id}} }

// Equal selects the rows with that value in a column.
func Equal(column string, value any) Where { return Where{{column, "==", value}} }

// Includes selects the rows whose column, a set or a map, contains at least these values.
func Includes(column string, value any) Where { return Where{{column, "includes", value}} }

// Mutation changes a column in place: "insert" and "delete" of elements.
type Mutation struct {
	Column, Mutator string
	Value           any
}

// MarshalJSON implements json.Marshaler.
func (m Mutation) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{m.Column, m.Mutator, m.Value})
}

// Insert adds a row, to which other operations of the transaction refer by Named(name).
func Insert(table, name string, row map[string]any) Op {
	op := Op{"op": "insert", "table": table, "row": row}
	if name != "" {
		op["uuid-name"] = name
	}
	return op
}

// Select reads columns of rows; no columns: all.
func Select(table string, where Where, columns ...string) Op {
	op := Op{"op": "select", "table": table, "where": where.orAll()}
	if len(columns) > 0 {
		op["columns"] = columns
	}
	return op
}

// Update replaces columns of rows.
func Update(table string, where Where, row map[string]any) Op {
	return Op{"op": "update", "table": table, "where": where.orAll(), "row": row}
}

// Mutate changes columns of rows in place.
func Mutate(table string, where Where, mutations ...Mutation) Op {
	return Op{"op": "mutate", "table": table, "where": where.orAll(), "mutations": mutations}
}

// Delete removes rows. None is success.
func Delete(table string, where Where) Op {
	return Op{"op": "delete", "table": table, "where": where.orAll()}
}

// NextConfig counts a change of the database Open_vSwitch, as every writer should that wants to know when ovs-vswitchd
// has carried it out: then the column cur_cfg has the same number (ovs-vswitchd.conf.db(5)).
func NextConfig() Op {
	return Mutate("Open_vSwitch", nil, Mutation{Column: "next_cfg", Mutator: "+=", Value: 1})
}

// Assert makes the transaction fail unless this client holds the lock.
func Assert(lock string) Op { return Op{"op": "assert", "lock": lock} }

func (w Where) orAll() Where {
	if w == nil {
		return Where{}
	}
	return w
}

// Result is the outcome of one operation.
type Result struct {
	Count   int    `json:"count"`
	ID      any    `json:"uuid"`
	Rows    []Row  `json:"rows"`
	Err     string `json:"error"`
	Details string `json:"details"`
}

// UUID returns the identity of the row that an Insert made.
func (r Result) UUID() UUID {
	id, _ := atom(r.ID)
	return UUID(id)
}

// Error is returned for a transaction that the database refused. None of its operations took effect.
type Error struct {
	Op            Op // that failed; nil if all succeeded and the commit failed
	Code, Details string
}

func (e *Error) Error() string {
	if e.Op == nil {
		return fmt.Sprintf("the database refuses the transaction: %s (%s)", e.Code, e.Details)
	}
	return fmt.Sprintf("the database refuses to %v %v: %s (%s)", e.Op["op"], e.Op["table"], e.Code, e.Details)
}

// firstError returns the first error among the results of a transaction. A failed commit is one more result than there
// are operations (RFC 7047, section 4.1.3).
func firstError(ops []Op, results []Result) error {
	for i, r := range results {
		if r.Err == "" {
			continue
		}
		e := &Error{Code: r.Err, Details: r.Details}
		if i < len(ops) {
			e.Op = ops[i]
		}
		return e
	}
	return nil
}
