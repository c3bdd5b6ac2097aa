"""Who is who: joins settings, cores, shells and doors, once per process."""
