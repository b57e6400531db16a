//go:build unix

package admission

import (
	"io/fs"
	"syscall"
)

// handedOver says whether a file is as a service manager hands a secret over: root's own,
// read-only, with an entry in its access list for the single user of the service. Such an entry
// shows as read access of the group (0440). The group is root's too (systemd from 254 on:
// LoadCredential).
func handedOver(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().Perm() == 0o440 && s.Uid == 0 && s.Gid == 0
}
