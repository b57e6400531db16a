package results

import (
	"io"
	"path/filepath"

	"github.com/fedsim/fedsim/internal/atomicfile"
)

// Files of a deployment's model, beside embeddings and summary.json.
const (
	PublicFile = "public.json" // the public settings that the parties of the session agreed on
	SharedFile = "shared.bin"  // the model from which clients compute their users
)

// IsDeployed reports whether a folder holds a deployment's model and no simulated run.
func IsDeployed(dir string) bool {
	if exists(filepath.Join(dir, "config.yaml")) || exists(filepath.Join(dir, "manifest.json")) {
		return false
	}
	return exists(filepath.Join(dir, PublicFile)) || exists(filepath.Join(dir, "item_embeddings.npy"))
}

// WriteDeployed writes the files that Deployed needs beside the embeddings. public holds the
// settings that the parties agreed on; it may list ids and is readable by the owner of the folder
// alone. shared is the model from which clients compute their users.
func WriteDeployed(dir string, public, shared []byte) error {
	text := func(name string, text []byte) atomicfile.File {
		return atomicfile.File{Path: filepath.Join(dir, name), Mode: 0o600, Write: func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		}}
	}
	return atomicfile.WriteAll(text(PublicFile, public), text(SharedFile, shared))
}

// UsersOf returns the ids of the users whose embeddings a folder holds. The error for a folder without any wraps fs.ErrNotExist.
func UsersOf(dir string) (ids []string, err error) {
	err = readJSON(filepath.Join(dir, "user_embeddings.ids.json"), &ids)
	return ids, err
}
