package main

// powerLossMutants are deliberate faults that omit a sync to disk. Data in the page cache would then be lost with the
// power.
var powerLossMutants = []mutant{
	{
		name:   "powerloss/commit-no-sync",
		breaks: "Commits survive a power loss.",
		file:   "store/internal/boltfile/opening.go",
		old: `	h.DB.AllocSize = AllocSize
`,
		new: `	h.DB.AllocSize = AllocSize
	h.DB.NoSync = true
`,
		test: "TestPowerLoss", dir: powerLossDir,
	},
	{
		name:   "powerloss/new-directory-no-sync",
		breaks: "A directory that is made for a store survives a power loss.",
		file:   "store/internal/boltfile/open.go",
		old:    `	if err := syncReadable(parent); err != nil {`,
		new:    `	if err := error(nil); err != nil {`,
		test:   "TestPowerLoss", dir: powerLossDir,
	},
	{
		name:   "powerloss/open-no-name-sync",
		breaks: "A new file's name survives a power loss, even if its process was killed before it synced the directory.",
		file:   "store/internal/boltfile/open.go",
		old:    `	if err := SyncDir(filepath.Dir(f.real)); err != nil {`,
		new:    `	if err := error(nil); err != nil {`,
		test:   "TestPowerLoss", dir: powerLossDir,
	},
	{
		name:   "powerloss/open-no-sync",
		breaks: "The last commit of a killed process is on disk before pages of the previous commit are overwritten.",
		file:   "store/internal/boltfile/open.go",
		old:    `	if err := h.File.Sync(); err != nil {`,
		new:    `	if err := error(nil); err != nil {`,
		test:   "TestPowerLoss", dir: powerLossDir,
	},
	{
		name:   "powerloss/compaction-no-sync",
		breaks: "Commits after a compaction survive a power loss.",
		file:   "store/internal/boltfile/exchange.go",
		old: `	if err := SyncDir(filepath.Dir(f.real)); err != nil {
		f.Logger().Error(err, "The directory could not be synced: a crash of the machine may undo that the file got its name")
	}
	fresh.Path`,
		new: `	_ = filepath.Dir
	fresh.Path`,
		test: "TestPowerLoss", dir: powerLossDir,
	},
	{
		name:   "powerloss/import-no-sync",
		breaks: "A store that was restored survives a power loss.",
		file:   "store/internal/boltfile/create.go",
		old:    `	if err := SyncDir(filepath.Dir(n.Path)); err != nil {`,
		new:    `	if err := error(nil); err != nil {`,
		test:   "TestPowerLoss", dir: powerLossDir,
	},
	{
		name:   "powerloss/snapshot-no-sync",
		breaks: "A snapshot file is whole after a power loss.",
		file:   "internal/base/file.go",
		old: `		err = f.Sync()
`,
		new: `		err = nil
`,
		test: "TestPowerLoss", dir: powerLossDir,
	},
	{
		name:   "powerloss/snapshot-no-name-sync",
		breaks: "A snapshot file that was saved survives a power loss.",
		file:   "internal/base/file.go",
		old:    `	if err := SyncDir(filepath.Dir(target)); err != nil {`,
		new:    `	if err := error(nil); err != nil {`,
		test:   "TestPowerLoss", dir: powerLossDir,
	},
}

const powerLossDir = "internal/powerloss"
