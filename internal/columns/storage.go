package columns

import (
	"strings"
	"time"
)

var volumes = kind{
	names: []string{
		"Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass", "VolumeAttributesClass",
		"Reason", "Age", "+VolumeMode",
	},
	cells: func(o object, now time.Time) []any {
		claim := ""
		if ref := o.child("spec", "claimRef"); ref != nil {
			claim = ref.text("namespace") + "/" + ref.text("name")
		}
		return []any{
			o.name(), o.quantity("spec", "capacity", "storage"), accessModes(o.texts("spec", "accessModes")),
			o.text("spec", "persistentVolumeReclaimPolicy"),
			phaseOrTerminating(o), claim, storageClass(o), o.scalar(unset, "spec", "volumeAttributesClassName"),
			o.text("status", "reason"), o.age(now),
			o.scalar(unset, "spec", "volumeMode"),
		}
	},
}

var claims = kind{
	names: []string{"Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age",
		"+VolumeMode"},
	cells: func(o object, now time.Time) []any {
		volume, capacity, modes := o.text("spec", "volumeName"), "", ""
		if volume != "" {
			capacity, modes = o.quantity("status", "capacity", "storage"), accessModes(o.texts("status", "accessModes"))
		}
		return []any{
			o.name(), phaseOrTerminating(o), volume, capacity, modes, storageClass(o),
			o.scalar(unset, "spec", "volumeAttributesClassName"), o.age(now),
			o.scalar(unset, "spec", "volumeMode"),
		}
	},
}

func phaseOrTerminating(o object) string {
	if o.deleted() {
		return "Terminating"
	}
	return o.text("status", "phase")
}

func accessModes(modes []string) string {
	var short []string
	for _, known := range []struct{ mode, short string }{
		{"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"}, {"ReadWriteOncePod", "RWOP"},
	} {
		for _, m := range modes {
			if m == known.mode {
				short = append(short, known.short)
				break
			}
		}
	}
	return strings.Join(short, ",")
}

func storageClass(o object) string {
	if class, ok := o.annotation("volume.beta.kubernetes.io/storage-class"); ok {
		return class
	}
	return o.text("spec", "storageClassName")
}

var storageClasses = kind{
	names: []string{"Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"},
	cells: func(o object, now time.Time) []any {
		name := nameOrDefault(o, "storageclass.kubernetes.io/is-default-class",
			"storageclass.beta.kubernetes.io/is-default-class")
		return []any{
			name, o.text("provisioner"), o.scalar("Delete", "reclaimPolicy"), o.scalar("Immediate", "volumeBindingMode"),
			o.flag("allowVolumeExpansion"), o.age(now),
		}
	},
}

var volumeAttributesClasses = kind{
	names: []string{"Name", "DriverName", "Age"},
	cells: func(o object, now time.Time) []any { return []any{o.name(), o.text("driverName"), o.age(now)} },
}

var volumeAttachments = kind{
	names: []string{"Name", "Attacher:name", "PV", "Node", "Attached:boolean", "Age"},
	cells: func(o object, now time.Time) []any {
		return []any{
			o.name(), o.text("spec", "attacher"), o.text("spec", "source", "persistentVolumeName"), o.text("spec", "nodeName"),
			o.flag("status", "attached"), o.age(now),
		}
	},
}

var csiNodes = kind{
	names: []string{"Name", "Drivers:integer", "Age"},
	cells: func(o object, now time.Time) []any {
		return []any{o.name(), int64(o.size("spec", "drivers")), o.age(now)}
	},
}

var csiDrivers = kind{
	names: []string{
		"Name", "AttachRequired:boolean", "PodInfoOnMount:boolean", "StorageCapacity:boolean", "TokenRequests",
		"RequiresRepublish:boolean", "Modes", "Age",
	},
	cells: func(o object, now time.Time) []any {
		tokens := unset
		if o.has("spec", "tokenRequests") {
			var audiences []string
			for _, t := range o.list("spec", "tokenRequests") {
				audiences = append(audiences, t.text("audience"))
			}
			tokens = strings.Join(audiences, ",")
		}
		attach := !o.has("spec", "attachRequired") || o.flag("spec", "attachRequired")
		return []any{
			o.name(), attach, o.flag("spec", "podInfoOnMount"), o.flag("spec", "storageCapacity"), tokens,
			o.flag("spec", "requiresRepublish"), or(strings.Join(o.texts("spec", "volumeLifecycleModes"), ","), none),
			o.age(now),
		}
	},
}
