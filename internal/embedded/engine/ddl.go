package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// alter runs change with a collection locked that no open transaction has
// written to: it waits for them.
func (e *Engine) alter(ctx context.Context, c *collection, change func() error) error {
	for {
		err := func() error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.dropped {
				return errDropped
			}
			for _, t := range c.owners {
				return blocked{t.done}
			}
			for _, t := range c.reserved {
				return blocked{t.done}
			}
			return change()
		}()
		var wait blocked
		if !errors.As(err, &wait) {
			return err
		}
		select {
		case <-wait.done:
		case <-ctx.Done():
			return interrupted(ctx)
		}
	}
}

// errDropped tells that the collection went away in the meantime. It never
// leaves the package.
var errDropped = errors.New("the collection was dropped")

func (e *Engine) create(_ context.Context, req *Request) (bson.Raw, error) {
	ns, err := namespace(req)
	if err != nil {
		return nil, err
	}
	err = eachOption("create", req.Body, func(name string, v value) (known bool, err error) {
		field := "create." + name
		switch name {
		case "capped", "autoIndexId":
			err = refuseIfSet(field, name, v)
		case "collation":
			err = checkCollation(field, v)
		case "validator", "storageEngine", "indexOptionDefaults", "pipeline":
			err = refuseIfNotEmpty(field, name, v)
		case "validationLevel", "validationAction":
			_, err = wantString(field, v)
		case "size", "max", "viewOn", "timeseries", "expireAfterSeconds", "clusteredIndex", "changeStreamPreAndPostImages",
			"encryptedFields", "idIndex":
			err = notImplemented("the option " + name)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	e.ensure(ns) // creating it again with the same options succeeds, as since MongoDB 7.0
	return okReply(), nil
}

func okReply() bson.Raw {
	start, b := openDoc(nil)
	return closeDoc(appendOK(b), start)
}

func noOptions(string, value) (bool, error) { return false, nil }

func (e *Engine) drop(ctx context.Context, req *Request) (bson.Raw, error) {
	ns, err := namespace(req)
	if err != nil {
		return nil, err
	}
	if err := eachOption("drop", req.Body, noOptions); err != nil {
		return nil, err
	}
	c := e.collection(ns)
	if c == nil {
		return okReply(), nil // no error since MongoDB 7.0
	}
	indexes := 0
	err = e.remove(ctx, c, &indexes)
	if err != nil && !errors.Is(err, errDropped) {
		return nil, err
	}
	start, b := openDoc(nil)
	b = appendInt32(b, "nIndexesWas", indexes)
	b = appendString(b, "ns", ns)
	return closeDoc(appendOK(b), start), nil
}

func (e *Engine) remove(ctx context.Context, c *collection, indexes *int) error {
	return e.alter(ctx, c, func() error {
		*indexes = len(c.data.indexes)
		c.dropped = true
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.collections, c.ns)
		return nil
	})
}

func (e *Engine) dropDatabase(ctx context.Context, req *Request) (bson.Raw, error) {
	if _, err := joinNamespace(req.Database, "x"); err != nil {
		return nil, err
	}
	if n, ok := firstValue(req.Body).integer(); !ok || n != 1 {
		return nil, failure(5255100, "Have to pass 1 as 'dropDatabase' parameter")
	}
	if err := eachOption("dropDatabase", req.Body, noOptions); err != nil {
		return nil, err
	}
	found := false
	for _, c := range e.inDatabase(req.Database) {
		indexes := 0
		if err := e.remove(ctx, c, &indexes); err != nil && !errors.Is(err, errDropped) {
			return nil, err
		}
		found = true
	}
	start, b := openDoc(nil)
	if found {
		b = appendString(b, "dropped", req.Database)
	}
	return closeDoc(appendOK(b), start), nil
}

func (e *Engine) listCollections(_ context.Context, req *Request) (bson.Raw, error) {
	if _, err := joinNamespace(req.Database, "x"); err != nil {
		return nil, err
	}
	var f *filter
	nameOnly := false
	batch := int64(-1)
	err := eachOption("listCollections", req.Body, func(name string, v value) (known bool, err error) {
		field := "listCollections." + name
		switch name {
		case "filter":
			var doc []byte
			if doc, err = wantDocument(field, v); err == nil {
				f, err = parseFilter(doc)
			}
		case "nameOnly":
			nameOnly, err = wantBool(field, v)
		case "authorizedCollections":
			_, err = wantBool(field, v)
		case "cursor":
			batch, err = cursorBatch(field, v, -1)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	var out list
	for _, c := range e.inDatabase(req.Database) {
		doc := c.describe(nameOnly)
		if f.matches(doc) {
			out.docs = append(out.docs, doc)
		}
	}
	return e.reply(req.Database+".$cmd.listCollections", &out, batch, false)
}

// cursorBatch reads the option cursor: {batchSize: n}.
func cursorBatch(field string, v value, batch int64) (int64, error) {
	doc, err := wantDocument(field, v)
	if err != nil {
		return 0, err
	}
	it := fieldsOf(doc)
	var e element
	for it.next(&e) {
		if string(e.key) != "batchSize" {
			return 0, unknownField(field, string(e.key))
		}
		if batch, err = wantCount(field+".batchSize", e.value); err != nil {
			return 0, err
		}
	}
	return batch, nil
}

// name is the collection's name without the database.
func (c *collection) name() string { return c.ns[strings.IndexByte(c.ns, '.')+1:] }

func (c *collection) describe(nameOnly bool) bson.Raw {
	start, b := openDoc(nil)
	b = appendString(b, "name", c.name())
	b = appendString(b, "type", "collection")
	if !nameOnly {
		b = appendDoc(b, "options", []byte{5, 0, 0, 0, 0})
		var info int
		info, b = openSub(b, bson.TypeEmbeddedDocument, "info")
		b = appendBool(b, "readOnly", false)
		b = append(appendHeader(b, bson.TypeBinary, "uuid"), 16, 0, 0, 0, bson.TypeBinaryUUID)
		b = closeDoc(append(b, c.uuid[:]...), info)
		b = appendDoc(b, "idIndex", newIDIndex().describe())
	}
	return closeDoc(b, start)
}

func (ix *index) describe() bson.Raw {
	start, b := openDoc(nil)
	b = appendInt32(b, "v", 2)
	b = appendDoc(b, "key", ix.keys)
	b = appendString(b, "name", ix.name)
	if ix.unique && ix.name != idIndexName {
		b = appendBool(b, "unique", true)
	}
	return closeDoc(b, start)
}

func (e *Engine) listDatabases(_ context.Context, req *Request) (bson.Raw, error) {
	if req.Database != "admin" {
		return nil, failure(codeUnauthorized, "listDatabases may only be run against the admin database.")
	}
	var f *filter
	nameOnly := false
	err := eachOption("listDatabases", req.Body, func(name string, v value) (known bool, err error) {
		field := "listDatabases." + name
		switch name {
		case "filter":
			var doc []byte
			if doc, err = wantDocument(field, v); err == nil {
				f, err = parseFilter(doc)
			}
		case "nameOnly":
			nameOnly, err = wantBool(field, v)
		case "authorizedDatabases":
			_, err = wantBool(field, v)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	var names []string
	for _, c := range e.all() {
		database, _, _ := strings.Cut(c.ns, ".")
		if _, ok := sizes[database]; !ok {
			names = append(names, database)
		}
		c.mu.RLock()
		sizes[database] += c.data.size + c.data.indexSize()
		c.mu.RUnlock()
	}
	slices.Sort(names)
	var docs []value
	total := int64(0)
	for _, name := range names {
		start, b := openDoc(nil)
		b = appendString(b, "name", name)
		if !nameOnly {
			b = appendInt64(b, "sizeOnDisk", sizes[name])
			b = appendBool(b, "empty", false)
		}
		if b = closeDoc(b, start); f.matches(b) {
			docs = append(docs, documentValue(b))
			total += sizes[name]
		}
	}
	start, b := openDoc(nil)
	b = appendField(b, "databases", arrayValue(docs))
	if !nameOnly {
		b = appendInt64(b, "totalSize", total)
		b = appendInt64(b, "totalSizeMb", total>>20)
	}
	return closeDoc(appendOK(b), start), nil
}

func (s *store) indexSize() int64 {
	n := int64(0)
	for _, ix := range s.indexes {
		n += ix.size
	}
	return n
}

func (e *Engine) listIndexes(_ context.Context, req *Request) (bson.Raw, error) {
	ns, err := namespace(req)
	if err != nil {
		return nil, err
	}
	batch := int64(-1)
	err = eachOption("listIndexes", req.Body, func(name string, v value) (known bool, err error) {
		if name != "cursor" {
			return false, nil
		}
		batch, err = cursorBatch("listIndexes.cursor", v, -1)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	var out list
	err = e.read(req, ns, func(s *store, _ func() *store) error {
		if s == nil {
			return failure(codeNamespaceNotFound, "ns does not exist: %s", ns)
		}
		for _, ix := range s.indexes {
			out.docs = append(out.docs, ix.describe())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return e.reply(ns, &out, batch, false)
}

func (e *Engine) collStats(_ context.Context, req *Request) (bson.Raw, error) {
	ns, err := namespace(req)
	if err != nil {
		return nil, err
	}
	scale := int64(1)
	err = eachOption("collStats", req.Body, func(name string, v value) (known bool, err error) {
		if name != "scale" {
			return false, nil
		}
		if scale, err = wantCount("collStats.scale", v); err == nil && scale < 1 {
			err = failure(51024, "BSON field 'scale' value must be >= 1, actual value '%d'", scale)
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	start, b := openDoc(nil)
	err = e.read(req, ns, func(s *store, _ func() *store) error {
		if s == nil {
			s = &store{}
		}
		count := int64(s.records.Len())
		b = appendString(b, "ns", ns)
		b = appendCount(b, "size", s.size/scale)
		b = appendCount(b, "count", count)
		if count > 0 {
			b = appendCount(b, "avgObjSize", s.size/count)
		}
		b = appendCount(b, "numOrphanDocs", 0)
		b = appendCount(b, "storageSize", s.size/scale)
		b = appendCount(b, "freeStorageSize", 0)
		b = appendBool(b, "capped", false)
		b = appendInt32(b, "nindexes", len(s.indexes))
		b = appendField(b, "indexBuilds", arrayValue(nil))
		b = appendCount(b, "totalIndexSize", s.indexSize()/scale)
		b = appendCount(b, "totalSize", (s.size+s.indexSize())/scale)
		var sizes int
		sizes, b = openSub(b, bson.TypeEmbeddedDocument, "indexSizes")
		for _, ix := range s.indexes {
			b = appendCount(b, ix.name, ix.size/scale)
		}
		b = closeDoc(b, sizes)
		b = appendCount(b, "scaleFactor", scale)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return closeDoc(appendOK(b), start), nil
}

const maxIndexes = 64 // of a collection, as in MongoDB

func (e *Engine) createIndexes(ctx context.Context, req *Request) (bson.Raw, error) {
	ns, err := namespace(req)
	if err != nil {
		return nil, err
	}
	var specs []*index
	given := false
	err = eachOption("createIndexes", req.Body, func(name string, v value) (known bool, err error) {
		switch name {
		case "indexes":
			given = true
			specs, err = parseIndexes(v)
		case "commitQuorum":
		case "ignoreUnknownIndexOptions":
			err = refuseIfSet("createIndexes."+name, name, v)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	if !given {
		return nil, failure(codeMissingField, "BSON field 'createIndexes.indexes' is missing but a required field")
	}
	before, after := 0, 0
	var created bool
	for {
		var c *collection
		var made bool
		c, made = e.ensure(ns)
		created = created || made
		err = e.alter(ctx, c, func() error {
			before = len(c.data.indexes)
			if err := c.build(ctx, specs); err != nil {
				return err
			}
			after = len(c.data.indexes)
			return nil
		})
		if !errors.Is(err, errDropped) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	start, b := openDoc(nil)
	b = appendInt32(b, "numIndexesBefore", before)
	b = appendInt32(b, "numIndexesAfter", after)
	b = appendBool(b, "createdCollectionAutomatically", created)
	if before == after {
		b = appendString(b, "note", "all indexes already exist")
	}
	return closeDoc(appendOK(b), start), nil
}

func parseIndexes(v value) ([]*index, error) {
	arr, err := wantArray("createIndexes.indexes", v)
	if err != nil {
		return nil, err
	}
	var out []*index
	it := fieldsOf(arr)
	var e element
	for it.next(&e) {
		spec, err := wantDocument("createIndexes.indexes."+string(e.key), e.value)
		if err != nil {
			return nil, err
		}
		ix, err := parseIndex(spec)
		if err != nil {
			return nil, err
		}
		out = append(out, ix)
	}
	if out == nil {
		return nil, failure(codeBadValue, "Must specify at least one index to create")
	}
	return out, nil
}

func parseIndex(spec []byte) (*index, error) {
	ix := &index{}
	var err error
	it := fieldsOf(spec)
	var e element
	for it.next(&e) {
		name := string(e.key)
		field := "createIndexes.indexes." + name
		switch name {
		case "key":
			var keys []byte
			if keys, err = wantDocument(field, e.value); err == nil {
				ix.keys = bytes.Clone(keys)
				ix.pattern, err = parseKeyPattern(ix.keys)
			}
		case "name":
			ix.name, err = wantString(field, e.value)
			if err == nil && ix.name == "" {
				err = failure(codeCannotCreateIndex, "index name cannot be empty")
			}
		case "unique":
			ix.unique, err = wantBool(field, e.value)
		case "background", "v", "ns":
		case "sparse", "hidden", "prepareUnique":
			err = refuseIfSet(field, name, e.value)
		case "collation":
			err = checkCollation(field, e.value)
		case "partialFilterExpression", "expireAfterSeconds", "storageEngine", "weights", "default_language",
			"language_override", "textIndexVersion", "2dsphereIndexVersion", "bits", "min", "max", "bucketSize",
			"wildcardProjection", "clustered":
			err = notImplemented("the index option " + name)
		default:
			err = failure(codeInvalidIndexOption, "The field '%s' is not valid for an index specification. Specification: %s", name, shellText(documentValue(spec)))
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case ix.keys == nil:
		return nil, failure(codeFailedToParse, "The 'key' field is a required property of an index specification")
	case ix.name == "":
		return nil, failure(codeFailedToParse, "The 'name' field is a required property of an index specification")
	}
	if len(ix.pattern) == 1 && ix.pattern[0].path.name == "_id" && !ix.pattern[0].descending {
		ix.name, ix.unique = idIndexName, true
	} else if ix.name == idIndexName {
		return nil, failure(codeBadValue, "The index name '_id_' is reserved for the _id index, which must have key pattern {_id: 1}")
	}
	return ix, nil
}

func parseKeyPattern(keys []byte) (keyPattern, error) {
	var out keyPattern
	it := fieldsOf(keys)
	var e element
	for it.next(&e) {
		name := string(e.key)
		descending, err := keyDirection(e.value)
		if err != nil {
			return nil, err
		}
		p, err := parsePath(name)
		if err != nil {
			return nil, err
		}
		for _, part := range p.parts {
			_, position := arrayIndex(part)
			switch {
			case part == "":
				return nil, failure(codeCannotCreateIndex, "Index keys cannot contain an empty field.")
			case part == "$**":
				return nil, notImplemented("a wildcard index")
			case part[0] == '$':
				return nil, failure(codeCannotCreateIndex, "Index key contains an illegal field name: field name starts with '$'.")
			case position:
				return nil, notImplemented("an index on a position in an array")
			}
		}
		out = append(out, keyField{p, descending})
	}
	switch {
	case out == nil:
		return nil, failure(codeCannotCreateIndex, "Index keys cannot be empty.")
	case len(out) > maxKeyFields:
		return nil, failure(13103, "too many compound keys")
	}
	return out, nil
}

func keyDirection(v value) (descending bool, err error) {
	if v.t == bson.TypeString {
		switch kind := string(v.str()); kind {
		case "text", "2d", "2dsphere", "hashed", "geoHaystack", "columnstore":
			return false, notImplemented("an index of kind " + kind)
		default:
			return false, failure(codeCannotCreateIndex, "Unknown index plugin '%s'", kind)
		}
	}
	if !v.isNumber() {
		return false, failure(codeCannotCreateIndex, "Values in v:2 index key pattern cannot be of type %s. Only numbers > 0, numbers < 0, and strings are allowed.", typeName(v.t))
	}
	switch f := v.float(); {
	case f > 0:
		return false, nil
	case f < 0:
		return true, nil
	}
	return false, failure(codeCannotCreateIndex, "Values in the index key pattern cannot be 0.")
}

// build adds the indexes that are not there yet: all or, when one fails,
// none.
func (c *collection) build(ctx context.Context, specs []*index) error {
	indexes := slices.Clone(c.data.indexes)
	for _, ix := range specs {
		exists, err := conflicting(indexes, ix)
		if err != nil {
			return err
		}
		if exists {
			continue
		}
		if len(indexes) == maxIndexes {
			return failure(codeCannotCreateIndex, "add index fails, too many indexes for %s key:%s", c.ns, shellText(documentValue(ix.keys)))
		}
		if err := c.fill(ctx, ix); err != nil {
			return err
		}
		indexes = append(indexes, ix)
	}
	c.data.indexes = indexes
	return nil
}

// conflicting reports whether the very same index is there, and fails when a
// different one has its name or its keys.
func conflicting(indexes []*index, ix *index) (exists bool, err error) {
	for _, old := range indexes {
		sameKeys := compareDocuments(old.keys, ix.keys, true) == 0
		switch {
		case old.name == ix.name && sameKeys && old.unique == ix.unique:
			return true, nil
		case old.name == ix.name:
			return false, failure(codeIndexKeySpecsConflict, "An existing index has the same name as the requested index. When index names are not specified, they are auto generated and can cause conflicts. Please refer to our documentation. Requested index: %s, existing index: %s",
				shellText(documentValue(ix.describe())), shellText(documentValue(old.describe())))
		case sameKeys:
			return false, failure(codeIndexOptionsConflict, "Index already exists with a different name: %s", old.name)
		}
	}
	return false, nil
}

// fill loads the index with every record, in order of the keys.
func (c *collection) fill(ctx context.Context, ix *index) error {
	ix.tree = newTree()
	entries := make([]entry, 0, c.data.records.Len())
	it := c.data.records.Iter()
	for n := 1; it.Next(); n++ {
		if n%checkEvery == 0 {
			if err := interrupted(ctx); err != nil {
				return err
			}
		}
		if err := ix.pattern.keys(it.Value(), &c.previous); err != nil {
			return err
		}
		ix.multikey |= c.previous.arrays
		for i := range c.previous.len() {
			key := c.previous.at(i)
			entries = append(entries, newEntry(key, it.Key()))
			ix.size += int64(len(key)) + ridSize
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		switch {
		case lessEntry(a, b):
			return -1
		case lessEntry(b, a):
			return 1
		}
		return 0
	})
	for i, en := range entries {
		if ix.unique && i > 0 && entries[i-1].sameKey(en) {
			return c.duplicateKey(ix, c.data.records.Get(en.rid))
		}
		ix.tree.Load(en)
	}
	return nil
}

func (e *Engine) dropIndexes(ctx context.Context, req *Request) (bson.Raw, error) {
	ns, err := namespace(req)
	if err != nil {
		return nil, err
	}
	var which value
	err = eachOption("dropIndexes", req.Body, func(name string, v value) (bool, error) {
		if name != "index" {
			return false, nil
		}
		which = v
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	if which.missing() {
		return nil, failure(codeMissingField, "BSON field 'dropIndexes.index' is missing but a required field")
	}
	c := e.collection(ns)
	if c == nil {
		return nil, failure(codeNamespaceNotFound, "ns not found %s", ns)
	}
	before := 0
	err = e.alter(ctx, c, func() error {
		before = len(c.data.indexes)
		kept, err := withoutIndexes(c.data.indexes, which)
		if err != nil {
			return err
		}
		c.data.indexes = kept
		return nil
	})
	if errors.Is(err, errDropped) {
		err = failure(codeNamespaceNotFound, "ns not found %s", ns)
	}
	if err != nil {
		return nil, err
	}
	start, b := openDoc(nil)
	return closeDoc(appendOK(appendInt32(b, "nIndexesWas", before)), start), nil
}

func withoutIndexes(indexes []*index, which value) ([]*index, error) {
	var unwanted []*index
	find := func(match func(*index) bool, describe string) error {
		i := slices.IndexFunc(indexes, match)
		switch {
		case i < 0:
			return failure(codeIndexNotFound, "index not found with name [%s]", describe)
		case i == 0:
			return failure(codeInvalidOptions, "cannot drop _id index")
		}
		unwanted = append(unwanted, indexes[i])
		return nil
	}
	byName := func(v value) error {
		name := string(v.str())
		return find(func(ix *index) bool { return ix.name == name }, name)
	}
	var err error
	switch {
	case which.t == bson.TypeString && string(which.str()) == "*":
		return slices.Clone(indexes[:1]), nil
	case which.t == bson.TypeString:
		err = byName(which)
	case which.isDocument():
		if i := slices.IndexFunc(indexes, func(ix *index) bool { return compareDocuments(ix.keys, which.b, true) == 0 }); i < 0 {
			return nil, failure(codeIndexNotFound, "can't find index with key: %s", shellText(which))
		}
		err = find(func(ix *index) bool { return compareDocuments(ix.keys, which.b, true) == 0 }, "")
	case which.isArray():
		it := fieldsOf(which.b)
		var e element
		for it.next(&e) && err == nil {
			if e.t != bson.TypeString {
				return nil, wrongType("dropIndexes.index", e.value, "string")
			}
			err = byName(e.value)
		}
	default:
		err = wrongType("dropIndexes.index", which, "[string, object, array]")
	}
	if err != nil {
		return nil, err
	}
	kept := slices.Clone(indexes)
	return slices.DeleteFunc(kept, func(ix *index) bool { return slices.Contains(unwanted, ix) }), nil
}
