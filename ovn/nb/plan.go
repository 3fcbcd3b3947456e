package nb

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"porthole.dev/porthole/internal/ovsdb"
)

// Change describes an operation of a Plan for logs and tests.
type Change struct {
	Verb, Table, Key string
	Detail           string
}

func (c Change) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", c.Verb, c.Table, c.Key, c.Detail))
}

// Plan is what turns the rows into what is wanted.
type Plan struct {
	Changes []Change
	// Ops are carried out in one transaction.
	Ops []ovsdb.Op
	// Gone are the nodes whose switches the plan deletes. Their chassis must be deleted before Ops are carried out.
	Gone []string
}

// String returns the plan one change per line.
func (p Plan) String() string {
	var b strings.Builder
	for _, c := range p.Changes {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

// tables lists the tables in which we have rows, those with references before those that they refer to.
var tables = []string{"Logical_Router", "Logical_Switch", "Load_Balancer_Group", "Logical_Router_Port",
	"Logical_Router_Static_Route", "Logical_Switch_Port", "Load_Balancer"}

// Columns returns the columns of each table that Want and MakePlan read: those to monitor.
func Columns() map[string][]string {
	return map[string][]string{
		"Logical_Router":              {"name", "ports", "static_routes", "external_ids"},
		"Logical_Switch":              {"name", "ports", "load_balancer_group", "other_config", "external_ids"},
		"Load_Balancer_Group":         {"name", "load_balancer"},
		"Logical_Router_Port":         {"name", "mac", "networks", "options", "external_ids"},
		"Logical_Router_Static_Route": {"ip_prefix", "nexthop", "output_port", "policy", "external_ids"},
		"Logical_Switch_Port":         {"name", "type", "addresses", "port_security", "options", "external_ids"},
		"Load_Balancer":               {"name", "protocol", "vips", "options", "external_ids"},
	}
}

// planner holds what one plan is made of.
type planner struct {
	Plan
	seen Rows
	// of each object, by Parent{Table, Key}: an ovsdb.UUID, or an ovsdb.Named if it is inserted
	ids  map[Parent]any
	rows map[Parent]ovsdb.UUID // our rows in the database
	// holders are those of our rows that refer to a row. They are gathered once per plan, because a group refers to
	// every load balancer.
	holders map[ovsdb.UUID][]Parent
	inserts map[Parent]map[string]any // columns of the rows that Ops insert, which may still be changed
}

// MakePlan compares the database with what is wanted. If nothing differs the plan is empty.
func MakePlan(w Wanted, seen Rows) Plan {
	p := planner{seen: seen, ids: map[Parent]any{}, rows: map[Parent]ovsdb.UUID{}, holders: map[ovsdb.UUID][]Parent{},
		inserts: map[Parent]map[string]any{}}
	p.index()
	objects := w.withGroup()
	p.indexReferences(objects)

	wanted := map[Parent]bool{}
	for i, o := range w.Objects {
		id := Parent{Table: o.Table, Key: o.Key}
		wanted[id] = true
		if have, ok := p.rows[id]; ok {
			p.ids[id] = have
		} else {
			p.ids[id] = ovsdb.Named(fmt.Sprintf("n%d", i))
		}
	}

	for _, o := range objects {
		p.object(o)
	}
	for _, o := range objects {
		p.references(o)
	}
	p.remove(wanted)
	return p.Plan
}

// withGroup returns the objects, with every switch as a parent of the group of load balancers.
func (w Wanted) withGroup() []Object {
	objects := slices.Clone(w.Objects)
	for i := range objects {
		if objects[i].Table != "Load_Balancer_Group" {
			continue
		}
		for _, o := range w.Objects {
			if o.Table == "Logical_Switch" {
				objects[i].Parents = append(objects[i].Parents, Parent{"Logical_Switch", o.Key, "load_balancer_group"})
			}
		}
	}
	return objects
}

// index finds our rows. A group has no external_ids: it is found by its name.
func (p *planner) index() {
	for _, table := range tables {
		for _, id := range sortedIDs(p.seen[table]) {
			row := p.seen[table][id]
			key := row.Map("external_ids")[Mark]
			if table == "Load_Balancer_Group" && row.Text("name") == GroupName {
				key = GroupName
			}
			if key == "" {
				continue
			}
			at := Parent{Table: table, Key: key}
			if _, twice := p.rows[at]; twice {
				p.drop(table, id, key, "there are two of it")
				continue
			}
			p.rows[at] = id
		}
	}
}

// indexReferences fills holders from the columns in which objects want references.
func (p *planner) indexReferences(objects []Object) {
	columns := map[Parent]bool{} // without keys
	for _, o := range objects {
		for _, parent := range o.Parents {
			columns[Parent{Table: parent.Table, Column: parent.Column}] = true
		}
	}
	for at, id := range p.rows {
		for c := range columns {
			if c.Table != at.Table {
				continue
			}
			for _, child := range p.seen[at.Table][id].UUIDs(c.Column) {
				p.holders[child] = append(p.holders[child], Parent{at.Table, at.Key, c.Column})
			}
		}
	}
}

func sortedIDs(rows map[ovsdb.UUID]ovsdb.Row) []ovsdb.UUID { return slices.Sorted(maps.Keys(rows)) }

// object inserts the row of o or corrects its columns.
func (p *planner) object(o Object) {
	at := Parent{Table: o.Table, Key: o.Key}
	id, there := p.rows[at]
	columns := o.Columns
	if o.Table != "Load_Balancer_Group" {
		columns = maps.Clone(o.Columns)
		ids := Merged{Mark: o.Key}
		if more, ok := o.Columns["external_ids"].(Merged); ok {
			maps.Copy(ids, more)
		}
		columns["external_ids"] = ids
	}

	values, details := map[string]any{}, []string{}
	for _, c := range slices.Sorted(maps.Keys(columns)) {
		value, detail, same := compare(columns[c], p.seen[o.Table][id], c)
		if there && same {
			continue
		}
		values[c] = value
		details = append(details, c+"="+detail)
	}
	switch {
	case !there:
		name, _ := p.ids[at].(ovsdb.Named)
		p.inserts[at] = values
		p.change(Change{"insert", o.Table, o.Key, strings.Join(details, " ")},
			ovsdb.Insert(o.Table, string(name), values))
	case len(values) > 0:
		p.change(Change{"update", o.Table, o.Key, strings.Join(details, " ")},
			ovsdb.Update(o.Table, ovsdb.ByUUID(id), values))
	}
}

// references makes the parents of o refer to it, and takes a port away from other switches.
func (p *planner) references(o Object) {
	child := p.ids[Parent{Table: o.Table, Key: o.Key}]
	for _, parent := range o.Parents {
		at := Parent{Table: parent.Table, Key: parent.Key}
		if row, inserted := p.inserts[at]; inserted {
			set, _ := row[parent.Column].(ovsdb.Set)
			row[parent.Column] = append(set, child)
			continue
		}
		id, there := p.rows[at]
		if !there {
			continue
		}
		if uuid, ok := child.(ovsdb.UUID); ok && slices.Contains(p.holders[uuid], parent) {
			continue
		}
		p.change(Change{"link", parent.Table, parent.Key, parent.Column + "+=" + o.Key},
			reference(parent, ovsdb.ByUUID(id), "insert", child))
	}
	if uuid, ok := child.(ovsdb.UUID); ok && o.Table == "Logical_Switch_Port" {
		p.unlinkOthers(o, uuid)
	}
}

// reference returns the operation that inserts or deletes a reference.
func reference(parent Parent, where ovsdb.Where, mutator string, child any) ovsdb.Op {
	return ovsdb.Mutate(parent.Table, where,
		ovsdb.Mutation{Column: parent.Column, Mutator: mutator, Value: ovsdb.Set{child}})
}

// unlinkOthers takes a port away from switches that it does not belong to any more: a pod of the same name runs on
// another node now.
func (p *planner) unlinkOthers(o Object, port ovsdb.UUID) {
	holders := slices.SortedFunc(slices.Values(p.holders[port]),
		func(a, b Parent) int { return cmp.Compare(a.Key, b.Key) })
	for _, holder := range holders {
		if slices.Contains(o.Parents, holder) {
			continue
		}
		at := Parent{Table: holder.Table, Key: holder.Key}
		p.change(Change{"unlink", holder.Table, holder.Key, holder.Column + "-=" + o.Key},
			reference(holder, ovsdb.ByUUID(p.rows[at]), "delete", port))
	}
}

// remove deletes our rows that nobody wants, children first.
func (p *planner) remove(wanted map[Parent]bool) {
	for _, table := range slices.Backward(tables) {
		var gone []Parent
		for at := range p.rows {
			if at.Table == table && !wanted[at] {
				gone = append(gone, at)
			}
		}
		slices.SortFunc(gone, func(a, b Parent) int { return cmp.Compare(a.Key, b.Key) })
		for _, at := range gone {
			id := p.rows[at]
			if node := p.seen[table][id].Map("external_ids")["node"]; table == "Logical_Switch" && node != "" {
				p.Gone = append(p.Gone, node)
			}
			p.drop(table, id, at.Key, "")
		}
	}
}

// parentColumns maps a table to the column of another table in which references to its rows stand. Key is empty. The
// database deletes a row of these tables by itself once no row refers to it, except one of Load_Balancer.
var parentColumns = map[string]Parent{
	"Logical_Switch_Port":         {Table: "Logical_Switch", Column: "ports"},
	"Logical_Router_Port":         {Table: "Logical_Router", Column: "ports"},
	"Logical_Router_Static_Route": {Table: "Logical_Router", Column: "static_routes"},
	"Load_Balancer":               {Table: "Load_Balancer_Group", Column: "load_balancer"},
}

// drop deletes a row. Most rows that others refer to go with the last reference to them: see parentColumns.
func (p *planner) drop(table string, id ovsdb.UUID, key, why string) {
	parent, child := parentColumns[table]
	var ops []ovsdb.Op
	if child {
		ops = append(ops, reference(parent, ovsdb.Includes(parent.Column, ovsdb.Set{id}), "delete", id))
	}
	if !child || table == "Load_Balancer" {
		ops = append(ops, ovsdb.Delete(table, ovsdb.ByUUID(id)))
	}
	p.change(Change{"delete", table, key, why}, ops...)
}

func (p *planner) change(c Change, ops ...ovsdb.Op) {
	p.Changes = append(p.Changes, c)
	p.Ops = append(p.Ops, ops...)
}

// compare returns the value to write into a column, its text in a plan, and whether the row has it already.
func compare(want any, row ovsdb.Row, column string) (value any, detail string, same bool) {
	switch w := want.(type) {
	case string:
		return w, w, row.Text(column) == w
	case Texts:
		have := row.Texts(column)
		slices.Sort(have)
		sorted := slices.Sorted(slices.Values(w))
		set := ovsdb.Set{}
		for _, t := range sorted {
			set = append(set, t)
		}
		return set, fmt.Sprint(sorted), slices.Equal(have, sorted)

	case Exact:
		return ovsdb.Map(w), pairs(w), maps.Equal(row.Map(column), ovsdb.Map(w))
	case Merged:
		have := row.Map(column)
		merged := maps.Clone(have)
		maps.Copy(merged, ovsdb.Map(w))
		return merged, pairs(w), maps.Equal(have, merged)
	}
	return nil, "", true
}

func pairs(m map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, k+":"+m[k])
	}
	return "{" + strings.Join(list, " ") + "}"
}
