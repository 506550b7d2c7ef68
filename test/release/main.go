// Command release builds the artifacts of a Larder release: a static program per platform, an OCI image for Linux, and
// their checksums. A commit built with the same Go version gives the same bytes in any directory.
//
//	release [-out DIR] [-platforms LIST] [-image LIST]   builds the artifacts
//	release -tag VERSION                                 tags the modules without a build
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	out := flag.String("out", "dist", "`directory` for what is built")
	platforms := flag.String("platforms",
		"linux/amd64,linux/arm64,linux/arm,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64",
		"what to build the program for")
	image := flag.String("image", "linux/amd64,linux/arm64,linux/arm",
		"what the image is for; each must be among the platforms")
	tag := flag.String("tag", "", "tag the modules with `VERSION`, and build nothing")
	flag.Parse()
	err := error(nil)
	if *tag != "" {
		err = tagModules(root, *tag, os.Stdout)
	} else {
		err = release(*out, strings.Split(*platforms, ","), strings.Split(*image, ","))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func release(dir string, platforms, imagePlatforms []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	programs := map[string]string{}
	var names []string
	for _, p := range platforms {
		name, err := buildProgram(dir, p)
		if err != nil {
			return err
		}
		programs[p] = filepath.Join(dir, name)
		names = append(names, name)
	}
	if err := checkSize(programs["linux/amd64"]); err != nil {
		return err
	}
	var images []imageFor
	for _, p := range imagePlatforms {
		program, ok := programs[p]
		if !ok {
			return fmt.Errorf("the image is to be for %s, for which no program is built", p)
		}
		images = append(images, imageFor{platform: p, program: program})
	}
	const archive = "larder-image.tar"
	digest, err := writeImage(filepath.Join(dir, archive), images)
	if err != nil {
		return err
	}
	fmt.Printf("%s  %s\n", digest, archive)
	return writeSums(dir, append(names, archive))
}

// mostBytes is the maximum size of the stripped program for linux/amd64, in bytes. A clientset of all API groups, or
// genericclioptions of cli-runtime with its kustomize, would exceed it.
const mostBytes = 45 << 20

func checkSize(program string) error {
	if program == "" {
		return nil
	}
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	if info.Size() >= mostBytes {
		return fmt.Errorf("%s has %d bytes, at most %d are wanted: see what has come in, with go tool nm -size -sort size",
			program, info.Size(), mostBytes)
	}
	return nil
}

// writeSums writes SHA256SUMS in the format of sha256sum -c.
func writeSums(dir string, names []string) error {
	slices.Sort(names)
	var sums strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
	}
	fmt.Print(sums.String())
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
