package cli

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/environment"
)

// plural counts things whose plural is an added s; "data" has none.
func plural(n int, noun string) string {
	if n != 1 && noun != "data" {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// oneLine folds white space and shortens what would break a table.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return s
}

func disk(m environment.Machine) string {
	if m.DiskGB == 0 {
		return "-"
	}
	return fmt.Sprintf("%d GB %s", m.DiskGB, m.DiskType)
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

func address(m environment.MemberStatus) string {
	return net.JoinHostPort(m.Host, strconv.Itoa(m.Port))
}

// relative shows a path as seen from the working directory.
func (a *app) relative(path string) string {
	if r, err := filepath.Rel(a.dir, path); err == nil && !strings.HasPrefix(r, "..") {
		return r
	}
	return path
}
