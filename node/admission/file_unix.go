//go:build unix

package admission

import (
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// handedOver says whether a file is as a manager of services or containers hands a secret over: see givenByRoot.
func handedOver(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	groups, err := os.Getgroups()
	return err == nil && givenByRoot(info.Mode().Perm(), s.Uid, s.Gid, os.Geteuid(), append(groups, os.Getegid()))
}

// givenByRoot says whether a file of a user and a group is root's own, which only root can change, and which only root and a
// group of the process can read. Either the process is not root and the group is one of its own: Kubernetes gives secrets so
// with fsGroup, and PostgreSQL takes keys so. Or the file is read-only and the group is root's: an entry in the access list for
// the single user of a service shows as read access of the group (systemd from 254 on: LoadCredential).
func givenByRoot(mode fs.FileMode, uid, gid uint32, process int, groups []int) bool {
	if uid != 0 || mode&^0o640 != 0 {
		return false
	}
	return mode == 0o440 && gid == 0 || process != 0 && slices.Contains(groups, int(gid))
}
