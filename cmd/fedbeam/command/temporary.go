package command

import (
	"errors"
	"os"
	"runtime"
)

// ownTemporary makes a folder in which all temporary files of this process, and of the workers that it starts, are from now on.
// leave removes it with them: Beam makes a file for each job, and leaves it.
func ownTemporary() (leave func() error, err error) {
	variable := "TMPDIR" // by which the system says where temporary files go
	if runtime.GOOS == "windows" {
		variable = "TMP"
	}
	dir, err := os.MkdirTemp("", "fedbeam-")
	if err != nil {
		return nil, err
	}
	before, was := os.LookupEnv(variable)
	leave = func() error {
		restored := os.Unsetenv(variable)
		if was {
			restored = os.Setenv(variable, before)
		}
		return errors.Join(restored, os.RemoveAll(dir))
	}
	if err = os.Setenv(variable, dir); err != nil {
		return nil, errors.Join(err, leave())
	}
	return leave, nil
}
