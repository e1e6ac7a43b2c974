package mongodb

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// Definitions are the options of a database's collections and their indexes,
// as the member of a direct connection has them: "collection NAME" and "index
// NAME.INDEX", as extended JSON. A view's or a collection's identity is left
// out.
func (c *Client) Definitions(ctx context.Context, database string) (map[string]string, error) {
	found := map[string]string{}
	// A database of this program has a handful of collections, of a handful of
	// indexes each: the first batch is all.
	const batch = 1000
	list := func(command bson.D) ([]bson.Raw, error) {
		command = append(command, bson.E{Key: "cursor", Value: bson.D{{Key: "batchSize", Value: batch}}})
		var reply struct {
			Cursor struct {
				ID    int64      `bson:"id"`
				Batch []bson.Raw `bson:"firstBatch"`
			} `bson:"cursor"`
		}
		if err := c.runOn(ctx, readpref.Nearest(), database, command, &reply); err != nil {
			return nil, err
		}
		if reply.Cursor.ID != 0 {
			return nil, fmt.Errorf("%s on %s: more than %d of them", command[0].Key, c.subject, batch)
		}
		return reply.Cursor.Batch, nil
	}
	collections, err := list(bson.D{{Key: "listCollections", Value: 1}})
	if err != nil {
		return nil, err
	}
	for _, collection := range collections {
		name := text(collection.Lookup("name"))
		if name == "" || strings.HasPrefix(name, "system.") {
			continue
		}
		found["collection "+name] = text(collection.Lookup("options"))
		indexes, err := list(bson.D{{Key: "listIndexes", Value: name}})
		if err != nil {
			return nil, err
		}
		for _, index := range indexes {
			elements, err := index.Elements()
			if err != nil {
				return nil, fmt.Errorf("listIndexes on %s: %w", c.subject, err)
			}
			definition := bson.D{}
			for _, e := range elements {
				if e.Key() != "name" && e.Key() != "ns" { // ns: before 4.4
					definition = append(definition, bson.E{Key: e.Key(), Value: e.Value()})
				}
			}
			document, err := bson.Marshal(definition)
			if err != nil {
				return nil, fmt.Errorf("listIndexes on %s: %w", c.subject, err)
			}
			found["index "+name+"."+text(index.Lookup("name"))] = bson.Raw(document).String()
		}
	}
	return found, nil
}
