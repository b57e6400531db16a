// Command genproto makes Go code of .proto files without protoc. It compiles them itself and hands the
// result to protoc-gen-go, in the version of the module that the code is for, so that code and library
// always agree.
//
//	genproto ROOT FILE...
//
// ROOT is the folder of that module. Files are named as they are imported, by the path below ROOT; the
// code made of each goes to the folder of its go_package.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: genproto ROOT FILE...")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "genproto:", err)
		os.Exit(1)
	}
}

func generate(root string, files []string) error {
	module, err := run(root, nil, "list", "-m")
	if err != nil {
		return err
	}
	request, err := compile(root, files)
	if err != nil {
		return err
	}
	request.Parameter = proto.String("module=" + string(bytes.TrimSpace(module)))
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	out, err := run(root, in, "tool", "protoc-gen-go")
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err = proto.Unmarshal(out, &response); err != nil {
		return fmt.Errorf("the answer of protoc-gen-go: %w", err)
	}
	if response.Error != nil {
		return fmt.Errorf("protoc-gen-go: %s", response.GetError())
	}
	for _, f := range response.File {
		path := filepath.Join(root, filepath.FromSlash(f.GetName()))
		if err = os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err = os.WriteFile(path, []byte(f.GetContent()), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// compile makes the request of a plugin. It has no imports among its files: they
// would have to stand in it before what imports them.
func compile(root string, files []string) (*pluginpb.CodeGeneratorRequest, error) {
	c := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{root}},
		SourceInfoMode: protocompile.SourceInfoStandard, // comments go into the code
	}
	compiled, err := c.Compile(context.Background(), files...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files}
	for _, f := range compiled {
		d := protoutil.ProtoFromFileDescriptor(f)
		if len(d.Dependency) != 0 {
			return nil, fmt.Errorf("%s imports %q; genproto compiles files that stand alone", d.GetName(), d.Dependency)
		}
		request.ProtoFile = append(request.ProtoFile, d)
	}
	return request, nil
}

// run returns the output of the go command in the folder root, given in as its input.
func run(root string, in []byte, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stdin, cmd.Stderr = root, bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", cmd, err)
	}
	return out, nil
}
