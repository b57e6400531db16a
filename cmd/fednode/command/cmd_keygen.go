package command

import (
	"fmt"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/peer"
)

type keygenCmd struct {
	File   string `arg:"" help:"Where the key is kept, readable by its owner only. It is never overwritten."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

func (c *keygenCmd) Run(s streams) error {
	key, err := admission.GenerateKey(entropy.System())
	if err != nil {
		return err
	}
	id, err := peer.IDOf(key.Public().Ed25519())
	if err != nil {
		return err
	}
	if err = admission.WriteKey(c.File, key); err != nil {
		return err
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.out, map[string]string{"public": key.Public().String(), "peer": id.String()})
	}
	_, err = fmt.Fprintf(s.out, "public  %s\npeer    %s\n", key.Public(), id)
	return err
}
