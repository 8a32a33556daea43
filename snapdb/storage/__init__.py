"""What lies on the disk: the catalog file, segments, id maps, topologies, features, and the commit that binds them."""
