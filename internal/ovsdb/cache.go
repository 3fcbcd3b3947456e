package ovsdb

import (
	"context"
	"fmt"
	"maps"
	"sync"
)

// Cache is a copy of tables that the server keeps up to date while the connection lasts. It is safe for concurrent use.
type Cache struct {
	changed func()

	mu     sync.Mutex
	tables map[string]map[UUID]Row
}

// rowUpdate is a change of one row: Old is missing for one that is new, New for one that is gone. New has all monitored columns
// (RFC 7047, section 4.1.6).
type rowUpdate struct {
	Old, New Row
}

type tableUpdates map[string]map[UUID]rowUpdate

// Monitor returns a copy of columns of tables; no columns: all. changed is called after each change, from the goroutine that reads the
// connection, so it must not block; nil: nobody is.
func (c *Client) Monitor(ctx context.Context, database string, tables map[string][]string, changed func()) (*Cache, error) {
	cache := &Cache{changed: changed, tables: map[string]map[UUID]Row{}}
	requests := map[string]any{}
	for table, columns := range tables {
		request := map[string]any{}
		if len(columns) > 0 {
			request["columns"] = columns
		}
		requests[table] = request
		cache.tables[table] = map[UUID]Row{}
	}

	c.mu.Lock()
	id := fmt.Sprintf("monitor%d", len(c.caches)+1)
	c.caches[id] = cache
	c.mu.Unlock()
	// An update may be read between the answer and its use here. It is kept until the answer is in place.
	cache.mu.Lock()
	defer cache.mu.Unlock()
	var all tableUpdates
	if err := c.call(ctx, "monitor", []any{database, id, requests}, &all); err != nil {
		return nil, fmt.Errorf("monitoring %s: %w", database, err)
	}
	cache.put(all)
	return cache, nil
}

func (c *Cache) apply(changes tableUpdates) {
	c.mu.Lock()
	c.put(changes)
	c.mu.Unlock()
	if c.changed != nil {
		c.changed()
	}
}

func (c *Cache) put(changes tableUpdates) {
	for table, rows := range changes {
		if c.tables[table] == nil {
			c.tables[table] = map[UUID]Row{}
		}
		for id, r := range rows {
			if r.New == nil {
				delete(c.tables[table], id)
			} else {
				c.tables[table][id] = r.New
			}
		}
	}
}

// Rows returns the rows of a table. They must not be changed.
func (c *Cache) Rows(table string) map[UUID]Row {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.tables[table])
}

// Tables returns all rows of all tables as they were at one moment. They must not be changed.
func (c *Cache) Tables() map[string]map[UUID]Row {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]map[UUID]Row{}
	for name, rows := range c.tables {
		all[name] = maps.Clone(rows)
	}
	return all
}
