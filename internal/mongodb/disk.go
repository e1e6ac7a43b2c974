package mongodb

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// defaultDBPath is the server's when it is told none.
const defaultDBPath = "/data/db"

// addDiskFacts says what the data is kept on: file system and mount options
// from hostInfo's extra.mountInfo, which is /proc/self/mountinfo, and the size
// from the diagnostic data, which know it by mount point. The device's name
// changes from boot to boot and is left out.
func addDiskFacts(into map[string]string, info, diagnostic bson.Raw, dbPath string) {
	mounts, _ := info.Lookup("extra", "mountInfo").ArrayOK()
	values, err := mounts.Values()
	if err != nil {
		return
	}
	if dbPath == "" {
		dbPath = defaultDBPath
	}
	best := ""
	for _, v := range values {
		m, ok := v.DocumentOK()
		point, isText := m.Lookup("mountPoint").StringValueOK()
		// Of several on one point the last is the one that is seen.
		if !ok || !isText || !isBelow(dbPath, point) || len(point) < len(best) {
			continue
		}
		best = point
		options := strings.Split(text(m.Lookup("options")), ",")
		slices.Sort(options)
		into["disk.file_system"], into["disk.mount_options"] = text(m.Lookup("type")), strings.Join(options, ",")
	}
	if best != "" {
		set(into, "disk.capacity_bytes", text(systemMetrics(diagnostic).Lookup("mounts", best, "capacity")))
	}
}

// isBelow tells whether a path is a folder's or the folder itself.
func isBelow(path, folder string) bool {
	folder = strings.TrimSuffix(folder, "/")
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// addMemoryFacts says how the kernel hands out memory, where the server tells:
// it depends on that since its allocator is a newer TCMalloc (8.0).
func addMemoryFacts(into map[string]string, info bson.Raw) {
	for _, name := range []string{"thp_enabled", "thp_defrag", "thp_max_ptes_none", "overcommit_memory"} {
		set(into, "memory."+name, text(info.Lookup("extra", name)))
	}
}
