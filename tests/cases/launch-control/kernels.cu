// nvcc -arch=sm_90 -cubin -o sm_90.cubin kernels.cu; likewise sm_100 (CUDA 13.0)
extern "C" __global__ void plain(float*p){ p[threadIdx.x]*=2; }
extern "C" __global__ void waits(float*p){ asm volatile("griddepcontrol.wait;":::"memory"); p[threadIdx.x]*=2; }
extern "C" __global__ void triggers(float*p){ p[threadIdx.x]*=2; asm volatile("griddepcontrol.launch_dependents;":::"memory"); }
extern "C" __global__ void both(float*p){ asm volatile("griddepcontrol.wait;":::"memory"); p[threadIdx.x]*=2; asm volatile("griddepcontrol.launch_dependents;":::"memory"); p[threadIdx.x+32]=1; }
